#include "adapters/torch/device_way.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::adapter {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const DevicePlaces kOne{.gpus = {"a 0", "a 0", "a 0"}};
const DevicePlaces kEach{.gpus = {"a 0", "a 1", "b 0"}};
const DevicePlaces kSome{.gpus = {"a 0", "a 1", "a 0", "a 1"}};

DevicePlaces without_nccl(DevicePlaces places) {
  places.has_nccl = false;
  return places;
}

TEST(DeviceWay, IsTheFastestThatAllRanksHave) {
  struct Row {
    DeviceSums wanted;
    DevicePlaces places;
    DeviceWay sums, gathers;
  };
  const DevicePlaces alone{.gpus = {"a 0"}};
  const Row rows[] = {
      {DeviceSums::kAuto, alone, DeviceWay::kShared, DeviceWay::kShared},
      {DeviceSums::kAuto, kOne, DeviceWay::kShared, DeviceWay::kShared},
      {DeviceSums::kAuto, kEach, DeviceWay::kNccl, DeviceWay::kNccl},
      {DeviceSums::kAuto, kSome, DeviceWay::kTiered, DeviceWay::kHost},
      {DeviceSums::kAuto, without_nccl(kOne), DeviceWay::kShared, DeviceWay::kShared},
      {DeviceSums::kAuto, without_nccl(kEach), DeviceWay::kHost, DeviceWay::kHost},
      {DeviceSums::kAuto, without_nccl(kSome), DeviceWay::kHost, DeviceWay::kHost},
      {DeviceSums::kShared, kOne, DeviceWay::kShared, DeviceWay::kShared},
      {DeviceSums::kNccl, kEach, DeviceWay::kNccl, DeviceWay::kNccl},
      {DeviceSums::kNccl, kOne, DeviceWay::kNccl, DeviceWay::kNccl},
      {DeviceSums::kHost, kOne, DeviceWay::kHost, DeviceWay::kHost},
      {DeviceSums::kHost, kEach, DeviceWay::kHost, DeviceWay::kHost},
  };
  for (const Row& row : rows) {
    const auto sums = way_of_sums(row.wanted, row.places);
    const auto gathers = way_of_gathers(row.wanted, row.places);
    ASSERT_TRUE(sums.has_value() && gathers.has_value());
    EXPECT_EQ(*sums, row.sums) << &row - rows;
    EXPECT_EQ(*gathers, row.gathers) << &row - rows;
  }
}

TEST(DeviceWay, ThatTheRanksCannotHaveIsRefused) {
  const auto shared = way_of_sums(DeviceSums::kShared, kEach);
  ASSERT_FALSE(shared.has_value());
  EXPECT_EQ(shared.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(shared.error().message, HasSubstr("the ranks have different GPUs"));
  const auto nccl = way_of_gathers(DeviceSums::kNccl, without_nccl(kEach));
  ASSERT_FALSE(nccl.has_value());
  EXPECT_THAT(nccl.error().message, HasSubstr("build Tally where nccl.h is found"));
}

TEST(DeviceWay, SaysWhyItIsSlow) {
  EXPECT_THAT(why_slow(DeviceSums::kAuto, DeviceWay::kShared, kOne), IsEmpty());
  EXPECT_THAT(why_slow(DeviceSums::kAuto, DeviceWay::kTiered, kSome), IsEmpty());
  EXPECT_THAT(why_slow(DeviceSums::kHost, DeviceWay::kHost, kOne), IsEmpty());
  EXPECT_THAT(why_slow(DeviceSums::kAuto, DeviceWay::kHost, without_nccl(kEach)),
              HasSubstr("NCCL is not supported by the builds of all ranks"));
  EXPECT_THAT(why_slow(DeviceSums::kAuto, DeviceWay::kHost, kSome), HasSubstr("share a GPU"));
}

TEST(DeviceWay, GroupsRanksByTheFirstWithTheirGpu) {
  EXPECT_EQ(gpu_group(kSome, 0), 0);
  EXPECT_EQ(gpu_group(kSome, 1), 1);
  EXPECT_EQ(gpu_group(kSome, 2), 0);
  EXPECT_EQ(gpu_group(kSome, 3), 1);
}

}  // namespace
}  // namespace tally::adapter
