#include "bench/codec/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::bench::codecs {
namespace {

using testing::HasSubstr;

Results some_results() {
  Measurement int8{.codec = "int8", .input = "gaussian", .elements = 100};
  int8.encode = {.gb_per_s = {4, 6, 5}, .share = {0.4, 0.6, 0.45}};
  int8.decode = {.gb_per_s = {8}, .share = {0.8}};
  int8.decode_add = {.gb_per_s = {8}, .share = {0.7}};
  int8.copy_gb_per_s = {10, 10, 11};
  int8.bytes_per_value = 1;
  int8.error = 0.01;
  Measurement other = int8;
  other.input = "laplace";
  StageMeasurement rans{.stage = "rans",
                        .of = "int8",
                        .encode_gb_per_s = {0.4},
                        .decode_gb_per_s = {0.6},
                        .ratio = 1.3};
  return {.codecs = {int8, other}, .stages = {rans}};
}

TEST(CodecReport, ListsWhatWasWantedOfTheFirstInput) {
  const std::vector<Target> targets = targets_of(some_results());
  ASSERT_EQ(targets.size(), 4U);
  EXPECT_EQ(targets[0].what, "int8: encode, of a memory copy");
  EXPECT_DOUBLE_EQ(targets[0].seen, 0.45);
  EXPECT_FALSE(targets[0].met());
  EXPECT_TRUE(targets[1].met());
  EXPECT_FALSE(targets[2].met());
  EXPECT_TRUE(targets[3].met());
  const std::string text = report_on(some_results(), 3).table;
  EXPECT_THAT(text, HasSubstr("missed"));
  EXPECT_THAT(text, HasSubstr("laplace: 100 values"));
}

TEST(CodecReport, HasALineOfJsonForEach) {
  const Report report = report_on(some_results(), 3);
  ASSERT_EQ(report.lines.size(), 3U);
  const Json& first = report.lines[0];
  EXPECT_EQ(first["codec"], "int8");
  EXPECT_EQ(first["runs"], 3);
  EXPECT_EQ(first["encode_gb_per_s"], 5);
  EXPECT_EQ(first["encode_of_copy"], 0.45);
  EXPECT_EQ(first["ratio"], 4);
  EXPECT_FALSE(first.contains("send_gb_per_s"));
  EXPECT_EQ(report.lines[2]["stage"], "rans");
}

}  // namespace
}  // namespace tally::bench::codecs
