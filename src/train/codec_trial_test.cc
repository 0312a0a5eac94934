#include "train/codec_trial.h"

#include <gtest/gtest.h>

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

// Encoding and decoding everything, a second each, and the share of a second that is spent on means.
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

}  // namespace
}  // namespace tally::train
