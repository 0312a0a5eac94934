#include <algorithm>
#include <set>

#include "codec/families.h"
#include "codec/sparse/sparse_bytes.h"
#include "codec/sparse/sparse_test_support.h"
#include "plan/plan.h"

namespace tally::codec {
namespace {

TEST(Randk, IndicesAreDifferentRisingAndBelowTheCount) {
  Rng rng(1);
  for (std::size_t count = 1; count <= 300; ++count) {
    for (const std::size_t entries :
         {std::size_t{0}, std::size_t{1}, count / 3, count - 1, count}) {
      const Turn turn{
          .key = {static_cast<std::uint32_t>(rng.next()), static_cast<std::uint32_t>(rng.next())},
          .number = static_cast<std::uint32_t>(rng.next())};
      const std::vector<std::uint32_t> indices = drawn_indices(turn, count, entries);
      ASSERT_EQ(indices.size(), entries);
      for (std::size_t i = 1; i < entries; ++i) ASSERT_LT(indices[i - 1], indices[i]);
      ASSERT_TRUE(entries == 0 || indices.back() < count);
    }
  }
}

// Every index is drawn once in as many turns as its arc is long: exactly once in count / entries
// turns if that is a whole number, and never less than once in the next larger number.
TEST(Randk, EveryIndexHasItsTurn) {
  for (const std::size_t count : {1U, 7U, 50U, 300U})
    for (const std::size_t entries : {std::size_t{1}, count / 5 + 1, count / 2 + 1, count}) {
      const std::size_t turns = (count + entries - 1) / entries;
      const kernel::RandomKey key = key_of({.seed = 4});
      std::vector<int> times(count);
      for (std::uint32_t turn = 0; turn < turns; ++turn)
        for (const std::uint32_t index : drawn_indices({key, 17 + turn}, count, entries))
          ++times[index];
      for (const int drawn : times) {
        EXPECT_GE(drawn, 1) << entries << " of " << count;
        EXPECT_LE(drawn, count % entries == 0 ? 1 : 2) << entries << " of " << count;
      }
    }
}

// Without feedback values are scaled, so that over a round of turns what is sent is what was given.
TEST(Randk, WithoutFeedbackIsUnbiasedOverARoundOfTurns) {
  Rng rng(8);
  const Floats values = normal_values(3000, rng);
  for (const double density : {0.1, 0.02, 1.0}) {
    const auto codec = make_randk(density, /*scaled=*/true);
    EXPECT_TRUE(codec->traits().unbiased);
    const auto turns = static_cast<std::uint64_t>(std::lround(1 / density));
    std::vector<double> sums(values.size());
    for (std::uint64_t step = 0; step < turns; ++step) {
      const Floats sent = round_trip(*codec, values, {.step = step});
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += sent[i];
    }
    for (std::size_t i = 0; i < sums.size(); ++i)
      EXPECT_NEAR(sums[i] / static_cast<double>(turns), values[i], 1e-6);
  }
}

// The text of the plan decides whether values are scaled. With feedback the residual makes up for
// the values that were left out.
TEST(Randk, IsUnbiasedIfThePlanTurnsFeedbackOff) {
  struct Case {
    std::string plan;
    double mean;  // of the decoded value, over the value
  };
  Rng rng(10);
  const Floats values = normal_values(1000, rng);
  for (const Case& each : {Case{"codec=randk:0.1,feedback=off", 1}, Case{"codec=randk:0.1", 0.1}}) {
    const auto plan = plan::parse_plan(each.plan);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const auto codec = make_codec(plan->codec);
    EXPECT_EQ(codec->traits().unbiased, each.mean == 1) << each.plan;
    std::vector<double> sums(values.size());
    double draws = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed)
      for (std::uint64_t step = 0; step < 10; ++step, ++draws) {
        const Floats sent = round_trip(*codec, values, {.seed = seed, .step = step});
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += sent[i];
      }
    for (std::size_t i = 0; i < sums.size(); ++i)
      EXPECT_NEAR(sums[i] / draws, each.mean * values[i], 1e-6) << each.plan;
  }
}

// Over many keys each index is drawn with probability entries / count, within 5 standard
// deviations.
TEST(Randk, EveryIndexIsEquallyProbable) {
  constexpr int kDraws = 40000;
  constexpr std::size_t kCount = 50;
  for (const std::size_t entries : {1U, 7U, 25U, 31U, 49U}) {
    std::vector<int> times(kCount);
    for (int step = 0; step < kDraws; ++step) {
      const Draw draw{.seed = 9, .step = static_cast<std::uint64_t>(step)};
      for (const std::uint32_t index : drawn_indices({key_of(draw), 3}, kCount, entries))
        ++times[index];
    }
    const double share = static_cast<double>(entries) / kCount;
    const double deviation = std::sqrt(kDraws * share * (1 - share));
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_NEAR(times[i], kDraws * share, 5 * deviation) << i << " with " << entries;
  }
}

TEST(Randk, AllRanksOfAStepSendTheSameIndicesAndStepsOtherOnes) {
  Rng rng(2);
  const auto codec = make_randk(0.02, /*scaled=*/false);
  std::set<std::vector<bool>> choices;
  for (std::uint64_t step = 0; step < 5; ++step) {
    for (const std::uint64_t first : {0U, 65536U}) {
      std::set<std::vector<bool>> of_ranks;
      for (const std::uint32_t rank : {0U, 1U, 7U, 0xFFFFFFFFU}) {
        const Floats values = normal_values(3000, rng);
        const Draw draw{.seed = 3, .step = step, .rank = rank, .first = first};
        of_ranks.insert(sent_places(values, round_trip(*codec, values, draw)));
      }
      EXPECT_EQ(of_ranks.size(), 1U);
      choices.insert(*of_ranks.begin());
    }
  }
  EXPECT_EQ(choices.size(), 10U);
}

TEST(Randk, SendsTheDensityWithoutIndices) {
  Rng rng(3);
  const Floats values = normal_values(10000, rng);
  for (const double density : {0.0001, 0.01, 0.5}) {
    const auto codec = make_randk(density, /*scaled=*/false);
    const auto entries = static_cast<std::size_t>(std::lround(density * 10000));
    const Bytes bytes = encoded(*codec, values);
    EXPECT_EQ(bytes.size(), kDrawnHeader + 4 * entries);
  }
  EXPECT_TRUE(same_bits(round_trip(*make_randk(1, /*scaled=*/false), values), values));
}

// All senders draw the same indices, so any rank can broadcast the mean without them.
TEST(Randk, TheMeanGoesBackWithoutIndicesAndExactly) {
  Rng rng(4);
  const auto codec = make_randk(0.02, /*scaled=*/false);
  const auto back = make_randk_mean(0.02);
  const Draw draw{.seed = 3, .step = 5, .first = 65536};
  Floats mean(3000);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    Draw own = draw;
    own.rank = rank;
    const Bytes bytes = encoded(*codec, normal_values(3000, rng), own);
    ASSERT_TRUE(codec->decode_add(bytes, 1.0F / 3, mean).has_value());
  }
  Draw of_mean = draw;
  of_mean.rank = 0xFFFFFFFFU;
  EXPECT_EQ(encoded(*back, mean, of_mean).size(), kDrawnHeader + 4 * 60);
  EXPECT_TRUE(same_bits(round_trip(*back, mean, of_mean), mean));
  // A value that is not finite is sent even if no sender drew its index.
  for (std::size_t i = 0; i < 10; ++i) {
    mean[i] = std::numeric_limits<float>::infinity();
    EXPECT_TRUE(same_bits(round_trip(*back, mean, of_mean), mean));
  }
}

}  // namespace
}  // namespace tally::codec
