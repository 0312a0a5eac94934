#include "bench/codec/harness.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace tally::bench::codecs {
namespace {

TEST(Bounds, OfBlocksAreByTheirLargest) {
  const plan::CodecSpec int8{.kind = plan::Codec::kInt8, .block = 2};
  const std::vector<float> values = {127, 1, 1, 1};
  EXPECT_EQ(first_out_of_bounds(int8, 2, values, std::vector<float>{127, 1.4F, 1, 1}),
            std::nullopt);
  // The second block has a smaller scale, so its error bound is tighter.
  EXPECT_EQ(first_out_of_bounds(int8, 2, values, std::vector<float>{127, 1.4F, 1, 1.4F}), 3U);
  EXPECT_EQ(first_out_of_bounds(int8, 2, values, std::vector<float>{126, 1, 1, 1}), 0U);
}

TEST(Bounds, OfSparseCodecsAreTheValueItself) {
  const plan::CodecSpec topk{.kind = plan::Codec::kTopk, .density = 0.5};
  const std::vector<float> values = {1, -2};
  EXPECT_EQ(first_out_of_bounds(topk, 0, values, std::vector<float>{0, -2}), std::nullopt);
  EXPECT_EQ(first_out_of_bounds(topk, 0, values, std::vector<float>{0, 1}), 1U);
  const plan::CodecSpec all{.kind = plan::Codec::kTopk, .density = 1};
  EXPECT_EQ(first_out_of_bounds(all, 0, values, std::vector<float>{0, -2}), 0U);
  const plan::CodecSpec large{.kind = plan::Codec::kThreshold, .threshold = 1.5};
  EXPECT_EQ(first_out_of_bounds(large, 0, values, std::vector<float>{0, 0}), 1U);
}

TEST(Bounds, NotANumberIsOutOfAll) {
  const plan::CodecSpec sign{.kind = plan::Codec::kSign, .block = 8};
  const std::vector<float> bad = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(first_out_of_bounds(sign, 8, std::vector<float>{1, 1}, bad), 1U);
}

TEST(RelativeError, IsOfTheWhole) {
  EXPECT_DOUBLE_EQ(relative_error(std::vector<float>{3, 4}, std::vector<float>{3, 4}), 0);
  EXPECT_DOUBLE_EQ(relative_error(std::vector<float>{3, 4}, std::vector<float>{0, 0}), 1);
  EXPECT_DOUBLE_EQ(relative_error(std::vector<float>{3, 4}, std::vector<float>{3, -1}), 1);
  EXPECT_DOUBLE_EQ(relative_error(std::vector<float>{0, 0}, std::vector<float>{0, 0}), 0);
}

}  // namespace
}  // namespace tally::bench::codecs
