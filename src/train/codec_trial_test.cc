#include "train/codec_trial.h"

#include <gtest/gtest.h>

#include "train/bucket_trial.h"
#include "train/encoded_update_test_support.h"

namespace tally::train {
namespace {

// Every look at it is a second later.
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

// Encoding and decoding everything, a second each, and the share of a second that is spent on
// means.
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

// Others send values of other places: the way back has those of all.
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
      // Factors of 2 (40 + 50) and 2 (8 + 300), and 1500 as they are; there and back, half of it
      // elsewhere. All by the longer one of
      // 2400 values, which takes a second.
      {"powersgd", {0, end}, 2, 4.0 * (180 + 616 + 1500), 4400.0 / 2400, 4},
      {"powersgd", {0, end}, 4, 1.5 * 4 * (180 + 616 + 1500), 4400.0 / 2400, 4},
      {"powersgd", {middle, end}, 2, 4.0 * 616, 1, 4},
      // Rank 8 of 8 rows.
      {"powersgd:64", {middle, end}, 2, 4.0 * 8 * 308, 1, 4},
      {"powersgd", {0, end - 1}, 2, std::nullopt, 0, 0},
      {"powersgd", {1, end}, 2, std::nullopt, 0, 0},
      // The rest has what is compressed.
      {"powersgd", bucket.entries[1].range, 2, 4.0 * 1500, 0, 2},
      {"bf16", {end, end}, 2, 0, 0, 2},
      // Half of what goes there and back: two bytes each, the vector four.
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
}  // namespace tally::train
