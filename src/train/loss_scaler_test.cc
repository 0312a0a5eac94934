#include "train/loss_scaler.h"

#include <gtest/gtest.h>

namespace tally::train {
namespace {

TEST(LossScaler, FallsAfterAnOverflowAndGrowsAfterManyUpdatesWithout) {
  LossScaler scaler{.scale = 1024, .interval = 3};
  scaler.ended(true);
  EXPECT_EQ(scaler.scale, 512);
  scaler.ended(false);
  scaler.ended(false);
  EXPECT_EQ(scaler.scale, 512);
  scaler.ended(true);  // counts anew
  EXPECT_EQ(scaler.scale, 256);
  for (int i = 0; i < 3; ++i) scaler.ended(false);
  EXPECT_EQ(scaler.scale, 512);
  for (int i = 0; i < 6; ++i) scaler.ended(false);
  EXPECT_EQ(scaler.scale, 2048);
}

TEST(LossScaler, StaysANumber) {
  LossScaler scaler{.interval = 1};
  for (int i = 0; i < 5000; ++i) scaler.ended(false);
  EXPECT_EQ(scaler.scale, 0x1p100);
  for (int i = 0; i < 5000; ++i) scaler.ended(true);
  EXPECT_GT(scaler.scale, 0);
}

}  // namespace
}  // namespace tally::train
