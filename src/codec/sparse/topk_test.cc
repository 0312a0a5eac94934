#include <algorithm>
#include <numeric>

#include "codec/families.h"
#include "codec/sparse/sparse_bytes.h"
#include "codec/sparse/sparse_test_support.h"
#include "codec/sparse/top_selection.h"

namespace tally::codec {
namespace {

bool is_larger(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  return std::fabs(a) > std::fabs(b);
}

// All indices by descending magnitude; ties by ascending index.
std::vector<std::size_t> by_magnitude(const Floats& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return is_larger(values[a], values[b]); });
  return order;
}

// The selection of exact top-k, by sorting all values.
std::vector<bool> sorted_selection(const Floats& values, std::size_t wanted) {
  std::vector<bool> sent(values.size());
  std::size_t number = 0;
  for (const std::size_t i : by_magnitude(values)) {
    sent[i] = !std::isfinite(values[i]) || (number < wanted && values[i] != 0);
    ++number;
  }
  return sent;
}

std::size_t count_of(const std::vector<bool>& sent) {
  return static_cast<std::size_t>(std::count(sent.begin(), sent.end(), true));
}

TEST(Topk, DensityStandsForAtLeastOneValue) {
  EXPECT_EQ(entries_of(0.01, 0), 0U);
  EXPECT_EQ(entries_of(0.01, 1), 1U);
  EXPECT_EQ(entries_of(0.01, 149), 1U);
  EXPECT_EQ(entries_of(0.01, 150), 2U);
  EXPECT_EQ(entries_of(0.01, 65536), 655U);
  EXPECT_EQ(entries_of(1, 1000), 1000U);
}

TEST(Topk, ExactSendsWhatSortingFindsAtEveryLength) {
  Rng rng(1);
  for (std::size_t count = 0; count <= 1000; ++count) {
    SCOPED_TRACE(count);
    const double density = count % 3 == 0 ? 0.01 : 0.2;
    const auto codec = make_topk(density, /*exact=*/true);
    const Floats values =
        count % 2 == 0 ? normal_values(count, rng) : awkward_values(count, rng, count % 4 == 1);
    const Floats arrived = round_trip(*codec, values);
    ASSERT_EQ(sent_places(values, arrived), sorted_selection(values, entries_of(density, count)));
  }
}

// No omitted value exceeds a sent value in magnitude.
void expect_sends_the_largest(const Floats& values, const std::vector<bool>& sent) {
  const std::vector<std::size_t> order = by_magnitude(values);
  const std::size_t number = count_of(sent);
  if (number == 0) return;
  const float least = values[order[number - 1]];
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_TRUE(sent[i] || !is_larger(values[i], least)) << "value " << i;
}

TEST(Topk, SampledSendsTheLargestAndAboutAsManyAsWanted) {
  Rng rng(2);
  for (const double density : {0.0001, 0.001, 0.01, 0.1, 0.25, 0.9}) {
    const auto codec = make_topk(density, /*exact=*/false);
    for (const std::size_t count : {1U, 255U, 257U, 1000U, 5000U, 65535U, 65536U}) {
      SCOPED_TRACE(testing::Message() << density << " of " << count);
      const Floats values = normal_values(count, rng);
      const std::vector<bool> sent = sent_places(values, round_trip(*codec, values));
      const std::size_t wanted = entries_of(density, count);
      EXPECT_GE(count_of(sent), wanted - wanted / 5);
      EXPECT_LE(count_of(sent), wanted + wanted * 3 / 10);
      expect_sends_the_largest(values, sent);
    }
  }
}

TEST(Topk, SampledIsNotMisledByWhatItDoesNotSee) {
  // Sampling reads every hundredth value. First the large values are all between the sampled
  // positions, then only the sampled values are large.
  const std::size_t count = 65536;
  const auto codec = make_topk(0.01, /*exact=*/false);
  for (const bool seen : {false, true}) {
    Floats values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = ((i % 100 == 0) == seen ? 1.0F : 1e-3F) + 1e-7F * static_cast<float>(i % 1000);
    const std::vector<bool> sent = sent_places(values, round_trip(*codec, values));
    EXPECT_GE(count_of(sent), 524U);
    EXPECT_LE(count_of(sent), 851U);
    expect_sends_the_largest(values, sent);
  }
}

TEST(Topk, SampledTakesTheFirstOfManyEqualValues) {
  const auto codec = make_topk(0.01, /*exact=*/false);
  const Floats values(65536, -0.5F);
  const std::vector<bool> sent = sent_places(values, round_trip(*codec, values));
  EXPECT_EQ(count_of(sent), 655U);
  EXPECT_TRUE(std::all_of(sent.begin(), sent.begin() + 655, [](bool is) { return is; }));
}

TEST(Topk, ZerosAreNeverSentAndNonFiniteValuesAlways) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const bool exact : {false, true}) {
    const auto codec = make_topk(0.01, exact);
    Floats values(10000);
    values[77] = 1e-40F;
    EXPECT_EQ(count_of(sent_places(values, round_trip(*codec, values))), 1U);
    for (std::size_t i = 0; i < 300; ++i)
      values[i * 33] = i % 3 == 0 ? kInfinity : i % 3 == 1 ? -kInfinity : std::nanf("7");
    const std::vector<bool> sent = sent_places(values, round_trip(*codec, values));
    EXPECT_EQ(count_of(sent), 300U);
    for (std::size_t i = 0; i < 300; ++i) EXPECT_TRUE(sent[i * 33]);
    EXPECT_EQ(encoded(*codec, Floats(10000)).size(), kGapsHeader);
  }
}

TEST(Topk, DensityOneIsExact) {
  Rng rng(3);
  for (const bool exact : {false, true}) {
    const auto codec = make_topk(1, exact);
    EXPECT_TRUE(codec->traits().exact);
    for (const std::size_t count : {0U, 1U, 64U, 1000U, 65536U}) {
      Floats values = awkward_values(count, rng, /*odd_ones=*/true);
      const Floats arrived = round_trip(*codec, values);
      // A negative zero is a zero.
      for (float& value : values)
        if (value == 0) value = 0;
      EXPECT_TRUE(same_bits(arrived, values));
    }
  }
}

TEST(Topk, SmallestEncodingIsNeverAboveTheBound) {
  Rng rng(5);
  for (std::size_t count = 0; count <= 300; ++count) {
    // Varies the fraction and the clustering of nonzero values; encoded() checks the guard bytes.
    Floats values(count);
    const std::uint64_t share = 1 + rng.below(20);
    const std::uint64_t cluster = 1 + rng.below(40);
    for (std::size_t i = 0; i < count; ++i) values[i] = (i / cluster) % share == 0 ? 1.0F : 0.0F;
    const auto codec = make_topk(1, /*exact=*/true);
    EXPECT_EQ(codec->max_bytes(count), 1 + 4 * count);
    EXPECT_TRUE(same_bits(round_trip(*codec, values), values));
    // Only the last value is nonzero, so that its gap is as long as possible.
    std::fill(values.begin(), values.end(), 0.0F);
    if (count > 0) values.back() = -3;
    EXPECT_TRUE(same_bits(round_trip(*codec, values), values));
  }
}

}  // namespace
}  // namespace tally::codec
