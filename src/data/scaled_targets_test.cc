#include "data/scaled_targets.h"

#include <cmath>

#include <gtest/gtest.h>

#include "data/open.h"
#include "data/test_files.h"

namespace tally::data {
namespace {

TEST(ScaledTargets, HaveMeanZeroAndDeviationOne) {
  const TestFolder folder;
  const auto file = folder.write("t.csv", "a,price\n1,1000010\n2,1000030\n3,1000020\n4,1000020\n");
  auto plain = open_dataset(file.string(), "", {.read = {.validation = 0}});
  ASSERT_TRUE(plain) << plain.error().message;
  const auto scale = measure_targets(**plain);
  ASSERT_TRUE(scale);
  EXPECT_DOUBLE_EQ(scale->mean, 1000020);
  EXPECT_NEAR(scale->deviation, std::sqrt(50.0), 1e-9);
  const auto input = sample_of(**plain, 1).input;
  const auto scaled = scale_targets(std::move(*plain), *scale);
  EXPECT_EQ(sample_of(*scaled, 1).input, input);
  EXPECT_FLOAT_EQ(sample_of(*scaled, 0).target[0], -std::sqrt(2.0F));
  EXPECT_FLOAT_EQ(sample_of(*scaled, 1).target[0], std::sqrt(2.0F));
  EXPECT_FLOAT_EQ(sample_of(*scaled, 3).target[0], 0);
  EXPECT_EQ(scaled->preprocessing().target_scale.mean, scale->mean);
}

TEST(ScaledTargets, EqualTargetsBecomeZero) {
  const TestFolder folder;
  auto plain = open_dataset(folder.write("t.csv", "a,price\n1,7\n2,7\n").string(), "",
                            {.read = {.validation = 0}});
  ASSERT_TRUE(plain) << plain.error().message;
  const auto scale = measure_targets(**plain);
  ASSERT_TRUE(scale);
  const auto scaled = scale_targets(std::move(*plain), *scale);
  EXPECT_EQ(sample_of(*scaled, 0).target[0], 0);
}

}  // namespace
}  // namespace tally::data
