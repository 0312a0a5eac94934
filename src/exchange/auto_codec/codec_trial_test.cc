#include "exchange/auto_codec/codec_trial.h"

#include <gtest/gtest.h>

#include "exchange/auto_codec/bucket_trial.h"
#include "exchange/group/encoded_update_test_support.h"

namespace tally::exchange {
namespace {

// Each call of now() advances by one second.
class CountingClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(std::chrono::seconds(++looks_)); }

 private:
  mutable int looks_ = 0;
};

std::vector<float> values(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = gradient_value(0, i, 0, 0);
  return values;
}

TrialCosts costs_of(const std::string& codec, int senders) {
  const plan::CodecSpec spec = spec_of(codec);
  return try_codec({.spec = spec, .shape = {.columns = 100}, .senders = senders}, values(10'000),
                   CountingClock());
}

// One second each to encode and to decode everything, and a share of a second for the means.
TEST(CodecTrial, CountsTheShareOfMeansThatASenderOwns) {
  EXPECT_EQ(costs_of("int8", 1).seconds, 3);
  EXPECT_EQ(costs_of("int8", 4).seconds, 2.25);
}

TEST(CodecTrial, KnowsSizes) {
  const TrialCosts bf16 = costs_of("bf16", 2);
  EXPECT_EQ(bf16.there_bytes, 20'000);
  EXPECT_EQ(bf16.back_bytes, 20'000);
  EXPECT_TRUE(bf16.fixed_size);
  const TrialCosts stage = costs_of("int8+rans", 2);
  EXPECT_LT(stage.there_bytes, 11'000);
  EXPECT_FALSE(stage.fixed_size);
}

// Other senders send other positions: the way back has the positions of all.
TEST(CodecTrial, OfSparseCodecsBringsBackWhatAllHaveSent) {
  const TrialCosts two = costs_of("topk:0.01,exact", 2);
  const TrialCosts four = costs_of("topk:0.01,exact", 4);
  EXPECT_EQ(two.there_bytes, four.there_bytes);
  EXPECT_GT(four.back_bytes, 1.5 * two.back_bytes);
  EXPECT_GT(two.back_bytes, 1.3 * two.there_bytes);
}

TEST(CodecTrial, TakesASingleValue) {
  const plan::CodecSpec spec = spec_of("topk:0.01");
  const float one = 0.5F;
  const TrialCosts costs =
      try_codec({.spec = spec, .senders = 3}, std::span(&one, 1), CountingClock());
  EXPECT_GT(costs.there_bytes, 0);
}

TEST(CodecTrial, OfAMatrixKnowsTheFactors) {
  const TrialCosts costs =
      try_powersgd({.rows = 20, .columns = 500, .rank = 3}, values(10'000), CountingClock());
  EXPECT_EQ(costs.seconds, 1);
  EXPECT_EQ(costs.there_bytes, 4 * 3 * 20);
  EXPECT_EQ(costs.back_bytes, 4 * 3 * 500);
}

// Two matrices and a vector between them.
TEST(BucketTrial, CountsWhatTravelsOfTheLanesPart) {
  const std::vector<ParameterInfo> parameters = {{.name = "a", .shape = {40, 50}},
                                                 {.name = "b", .shape = {1500}},
                                                 {.name = "c", .shape = {8, 300}}};
  const std::vector<std::size_t> order = {0, 1, 2};
  const BucketLayout bucket = make_layout(parameters, order, 1 << 20).buckets.at(0);
  ASSERT_EQ(bucket.entries.size(), 3U);
  const std::size_t end = bucket.count;
  const std::size_t middle = bucket.entries[2].range.begin;
  struct Case {
    const char* codec;
    Range local;
    int hosts;
    std::optional<double> bytes;
    double seconds;
    std::size_t messages;
  };
  const Case cases[] = {
      // Factors of 2 (40 + 50) and 2 (8 + 300) elements, and 1500 uncompressed; there and back,
      // half of it to the other member. The larger matrix of 2400 values takes a second, and all
      // times scale with it.
      {"powersgd", {0, end}, 2, 4.0 * (180 + 616 + 1500), 4400.0 / 2400, 4},
      {"powersgd", {0, end}, 4, 1.5 * 4 * (180 + 616 + 1500), 4400.0 / 2400, 4},
      {"powersgd", {middle, end}, 2, 4.0 * 616, 1, 4},
      // Rank 8 for 8 rows.
      {"powersgd:64", {middle, end}, 2, 4.0 * 8 * 308, 1, 4},
      {"powersgd", {0, end - 1}, 2, std::nullopt, 0, 0},
      {"powersgd", {1, end}, 2, std::nullopt, 0, 0},
      // Another lane has the compressed parameters.
      {"powersgd", bucket.entries[1].range, 2, 4.0 * 1500, 0, 2},
      {"bf16", {end, end}, 2, 0, 0, 2},
      // Half of the elements there and back: two bytes each, four for the vector.
      {"bf16", {0, end}, 2, 2.0 * 4400 + 4 * 1500, 2.5 * 4400 / 2400, 2},
      {"bf16", {middle, middle + 1200}, 2, 2.0 * 1200, 2.5, 2},
  };
  std::vector<float> gradient = values(end);
  for (const Case& c : cases) {
    const plan::CodecSpec spec = spec_of(c.codec);
    const auto candidate =
        try_on({.spec = spec,
                .parameters = parameters,
                .bucket = bucket,
                .local = c.local,
                .hosts = c.hosts},
               std::span(gradient).subspan(c.local.begin, c.local.count()), CountingClock());
    ASSERT_EQ(candidate.has_value(), c.bytes.has_value()) << c.codec << " " << c.local.begin;
    if (!candidate) continue;
    EXPECT_NEAR(static_cast<double>(candidate->bytes), *c.bytes, 1) << c.codec;
    EXPECT_NEAR(candidate->codec_seconds, c.seconds, 1e-9) << c.codec;
    EXPECT_EQ(candidate->messages, c.messages) << c.codec;
  }
  const std::vector<float> zeros(end);
  const plan::CodecSpec spec = spec_of("powersgd");
  EXPECT_FALSE(try_on({.spec = spec, .parameters = parameters, .bucket = bucket, .local = {0, end}},
                      zeros, CountingClock()));
}

}  // namespace
}  // namespace tally::exchange
