#include "adapters/torch/gpu_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/torch/tensors.h"

namespace tally::adapter {
namespace {

TEST(GpuEvent, IsAskedUntilItIsReached) {
  int asked = 0;
  wait_until([&asked] { return ++asked == 3; }, std::chrono::hours(1));
  EXPECT_EQ(asked, 3);
}

TEST(GpuEvent, ThatIsNotReachedInTimeIsAFailureWithTheRemedy) {
  try {
    wait_until([] { return false; }, Duration(0));
    FAIL() << "no failure";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().code, ErrorCode::kTimeout);
    EXPECT_THAT(failure.what(), testing::HasSubstr("restart this worker"));
  }
}

}  // namespace
}  // namespace tally::adapter
