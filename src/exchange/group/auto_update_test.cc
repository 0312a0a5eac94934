#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/auto_codec/auto_codec.h"
#include "exchange/group/encoded_update_test_support.h"

// codec=auto from its first step to its choice. The tests set the cost of the wire, because a
// measured cost would vary.
namespace tally::exchange {
namespace {

using collective::Network;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kUntilChosen =
    AutoCodec::kSteps + AutoCodec::kTrySteps * static_cast<int>(AutoCodec::kMostTried);

constexpr codec::WireCost kSlow{.seconds_per_byte = 1e-3, .seconds_per_message = 1e-3};

GroupUpdate::Options auto_model(const std::string& codec, const codec::WireCost& wire) {
  GroupUpdate::Options options = encoded_model(codec, sgd({.rate = 0.1, .momentum = 0.9}));
  options.wire = wire;
  options.tries_codecs = false;
  return options;
}

struct Trained {
  std::vector<Values> values;                    // by rank
  std::vector<std::vector<std::string>> events;  // by rank
};

Trained train_and_listen(Network network, int ranks, const GroupUpdate::Options& options,
                         const Course& course) {
  Trained trained;
  trained.values.resize(static_cast<std::size_t>(ranks));
  trained.events.resize(static_cast<std::size_t>(ranks));
  collective::run_ranks(network, ranks, [&](Job& job) {
    const auto rank = static_cast<std::size_t>(job.rank());
    GroupUpdate::Options own = options;
    own.on_event = [&](const std::string& event) { trained.events[rank].push_back(event); };
    const auto update = make_update(job, own);
    if (update) {
      take_steps(job, *update, course);
      trained.values[rank] = values_in(*update);
    }
    EXPECT_TRUE(job.world().barrier().has_value());
  });
  return trained;
}

// With zero wire time no codec is faster than uncompressed gradients.
TEST(AutoUpdate, OverAnInfinitelyFastWireHasTheBitsOfNoCodec) {
  for (const Network network : {Network::kTwoHosts, Network::kUnevenHosts}) {
    const Course course{.steps = 8};
    const Trained chosen = train_and_listen(network, 4, auto_model("auto", {}), course);
    EXPECT_EQ(
        chosen.values,
        train(network, 4, encoded_model("none", sgd({.rate = 0.1, .momentum = 0.9})), course));
    for (const auto& events : chosen.events)
      EXPECT_THAT(events, ElementsAre(HasSubstr("none; the last is there")));
  }
}

TEST(AutoUpdate, OverASlowWireIsTheSameOnAllRanksAndTold) {
  const Course course{.steps = 9};
  const Trained chosen = train_and_listen(Network::kTwoHosts, 4, auto_model("auto", kSlow), course);
  for (const Values& values : chosen.values) EXPECT_EQ(values, chosen.values[0]);
  for (const auto& events : chosen.events)
    EXPECT_THAT(events,
                ElementsAre(AllOf(HasSubstr("codec=auto: 1kB/s between hosts"),
                                  HasSubstr("of 2 buckets 2 qsgd"), HasSubstr("instead of"))));
}

// The large matrix is smallest with powersgd, the small one with signs. Two ranks on one host cut
// the large matrix, which rules out powersgd.
TEST(AutoUpdate, TakesFactorsWhereTheyAreSmallestAndNobodyCutsTheMatrix) {
  struct Case {
    int ranks;
    const char* share;
  };
  const Course course{.steps = 9};
  for (const Case& c :
       {Case{2, "of 2 buckets 1 powersgd, 1 sign:"}, Case{4, "of 2 buckets 2 sign:"}}) {
    const Trained chosen =
        train_and_listen(Network::kTwoHosts, c.ranks,
                         auto_model("auto:from=int8/sign:back=same/powersgd", kSlow), course);
    for (const Values& values : chosen.values) EXPECT_EQ(values, chosen.values[0]);
    for (const auto& events : chosen.events) EXPECT_THAT(events, ElementsAre(HasSubstr(c.share)));
  }
}

// For any choice: after some steps with zero gradients all residuals have been applied.
TEST(AutoUpdate, LosesNothingOfWhatWasLeftOutByWhatItTried) {
  constexpr int kZeros = 24;
  const auto train_to_zero = [&](const GroupUpdate::Options& options) {
    std::vector<Values> results(2);
    collective::run_ranks(Network::kTwoHosts, 2, [&](Job& job) {
      const auto update = make_update(job, options);
      const StepContribution contribution{.samples = 8, .weight = 8};
      for (int step = 0; step < kUntilChosen + kZeros; ++step) {
        ASSERT_TRUE(update->begin(contribution).has_value());
        for (std::size_t p = update->parameters().size(); p-- > 0;) {
          auto* const gradient = reinterpret_cast<float*>(update->gradient(p).data());
          for (std::size_t i = 0; i < update->parameters()[p].count(); ++i)
            gradient[i] = step < kUntilChosen ? gradient_value(p, i, step, job.rank()) : 0.0F;
          ASSERT_TRUE(update->ready(p).has_value());
        }
        ASSERT_TRUE(update->complete(contribution, {}).has_value());
      }
      results[static_cast<std::size_t>(job.rank())] = values_in(*update);
      EXPECT_TRUE(job.world().barrier().has_value());
    });
    EXPECT_EQ(results[0], results[1]);
    return results[0];
  };
  const Values exact = train_to_zero(encoded_model("none", sgd({.rate = 0.1})));
  for (const std::string from : {"topk:0.2,exact/int8", "int8"}) {
    GroupUpdate::Options options = encoded_model("auto:from=" + from, sgd({.rate = 0.1}));
    options.wire = kSlow;
    EXPECT_LT(largest_difference(train_to_zero(options), exact), 2e-5) << from;
  }
}

// Gradients travel uncompressed before the choice; then all encoders start in the same step.
TEST(AutoUpdate, IsPlainFirstAndThenWhatWasChosen) {
  const Network network = Network::kTwoHosts;
  const auto plain = encoded_model("none", sgd({.rate = 0.1, .momentum = 0.9}));
  const auto options = auto_model("auto:from=bf16", kSlow);
  const Course before{.steps = AutoCodec::kSteps};
  EXPECT_EQ(train(network, 2, options, before), train(network, 2, plain, before));
  const Course after{.steps = AutoCodec::kSteps + 3};
  const std::vector<Values> chosen = train(network, 2, options, after);
  const std::vector<Values> exact = train(network, 2, plain, after);
  EXPECT_GT(largest_difference(chosen[0], exact[0]), 0);
  EXPECT_LT(largest_difference(chosen[0], exact[0]), 0.01);
}

TEST(AutoUpdate, TakesGradientsThatAreMissing) {
  Course course{.steps = 9};
  course.samples = [](Rank rank, int step) { return (rank + step) % 3 == 0 ? 0.0 : 4.0; };
  course.has = [](std::size_t p, Rank rank, int step) {
    return p != 5 && (p + static_cast<std::size_t>(rank + step)) % 4 != 0;
  };
  const Trained chosen = train_and_listen(Network::kTwoHosts, 2, auto_model("auto", kSlow), course);
  EXPECT_EQ(chosen.values[0], chosen.values[1]);
  for (const auto& parameter : chosen.values[0])
    EXPECT_THAT(parameter,
                testing::Each(testing::Truly([](float value) { return std::isfinite(value); })));
}

TEST(AutoUpdate, MeasuresAWireThatIsNotKnown) {
  GroupUpdate::Options options = auto_model("auto", {});
  options.wire.reset();
  options.tries_codecs = true;
  const Trained chosen = train_and_listen(Network::kTwoHosts, 2, options, {.steps = kUntilChosen});
  EXPECT_EQ(chosen.values[0], chosen.values[1]);
  EXPECT_EQ(chosen.events[0], chosen.events[1]);
  EXPECT_EQ(chosen.events[0].size(), 1U);
}

TEST(AutoUpdate, TriesTheSameOnAllRanks) {
  GroupUpdate::Options options = auto_model("auto:from=int8/powersgd", kSlow);
  options.tries_codecs = true;
  const Trained chosen =
      train_and_listen(Network::kTwoHosts, 2, options, {.steps = kUntilChosen + 2});
  EXPECT_EQ(chosen.values[0], chosen.values[1]);
  EXPECT_EQ(chosen.events[0], chosen.events[1]);
  EXPECT_THAT(chosen.events[0], ElementsAre(HasSubstr("; a step takes ")));
}

TEST(AutoUpdate, OnASingleHostIsNone) {
  const Course course{.steps = 6};
  const Trained chosen = train_and_listen(Network::kShm, 2, auto_model("auto", kSlow), course);
  EXPECT_EQ(
      chosen.values,
      train(Network::kShm, 2, encoded_model("none", sgd({.rate = 0.1, .momentum = 0.9})), course));
  EXPECT_THAT(chosen.events[0], ElementsAre("codec=auto: it is none, for there is one host"));
}

// A checkpoint with a chosen codec has the same tensors as one without a codec.
TEST(AutoUpdate, KeepsNothingForCheckpointsButTheModel) {
  collective::run_ranks(Network::kTwoHosts, 2, [&](Job& job) {
    const auto options = auto_model("auto", kSlow);
    const auto update = make_update(job, options);
    take_steps(job, *update, {.steps = 7});
    EXPECT_TRUE(update->codec_states()->empty());
    EXPECT_TRUE(codec_tensors(options.codec, update->parameters(), 2).empty());
    std::size_t elements = 0;
    const auto states = update->saved_states();
    for (const SliceState& state : *states) elements += state.values.size() / 4;
    double total = static_cast<double>(elements);
    ASSERT_TRUE(job.world().allreduce(std::span(&total, 1)).has_value());
    std::size_t expected = 0;
    for (const ParameterInfo& parameter : update->parameters()) expected += parameter.count();
    EXPECT_EQ(total, static_cast<double>(expected));
  });
}

}  // namespace
}  // namespace tally::exchange
