#include "adapters/nccl/nccl_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "adapters/nccl/nccl_group.h"
#include "adapters/nccl/test_ranks.h"
#include "soon.h"

// The sums and gathers of a model's buckets.
namespace tally::nccl {
namespace {

using exchange::DeviceGather;
using exchange::DeviceSum;

constexpr int kSteps = 4;
const std::vector<DeviceSum::Array> kArrays = {
    {DataType::kFloat32, 100'000}, {DataType::kFloat64, 777}, {DataType::kFloat32, 1}};
const std::vector<std::size_t> kCapacities = {100'000, 256, 1};

// Small integers, so that every order of addition is exact.
double value(Rank rank, std::size_t array, std::size_t i, int step) {
  const std::size_t mixed = static_cast<std::size_t>(rank) * 31 + array * 7 + i * 3;
  return static_cast<double>((mixed + static_cast<std::size_t>(step)) % 17);
}

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// The values that a rank adds to an array; with kNoRank the sum of `ranks` ranks.
std::vector<std::byte> part(Rank rank, int ranks, std::size_t array, int step) {
  std::vector<double> values(kArrays[array].count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (rank != kNoRank) values[i] = value(rank, array, i, step);
    for (Rank each = 0; rank == kNoRank && each < ranks; ++each)
      values[i] += value(each, array, i, step);
  }
  if (kArrays[array].type == DataType::kFloat64) return bytes_of(values);
  return bytes_of(std::vector<float>(values.begin(), values.end()));
}

// The bytes of a rank in an array: as many on all ranks in some steps, and none on some ranks in
// others.
std::vector<std::byte> encoding(Rank rank, std::size_t array, int step) {
  std::size_t size = kCapacities[array];
  if (step % 2 == 1) size = size * static_cast<std::size_t>((rank + step) % 3) / 2;
  return {size, static_cast<std::byte>(1 + rank + 5 * static_cast<int>(array) + 20 * step)};
}

std::vector<std::byte> read(exchange::Device& device, const std::byte* from, std::size_t bytes) {
  std::vector<std::byte> copy(bytes);
  EXPECT_TRUE(device.read(copy, from).has_value());
  return copy;
}

// The device still writes this rank's part when its sum starts.
void start_sum(exchange::Device& device, DeviceSum& sum, Rank rank, std::size_t array, int step) {
  ASSERT_TRUE(device.post(sum.own(array), part(rank, 0, array, step)).has_value());
  ASSERT_TRUE(sum.start(array).has_value());
}
void start_gather(exchange::Device& device, DeviceGather& gather, Rank rank, std::size_t array,
                  int step) {
  const std::vector<std::byte> bytes = encoding(rank, array, step);
  ASSERT_TRUE(device.post(gather.own(array), bytes).has_value());
  ASSERT_TRUE(gather.start(array, bytes.size()).has_value());
}

void expect_sum(exchange::Device& device, const DeviceSum& sum, int ranks, std::size_t array,
                int step) {
  const std::vector<std::byte> expected = part(kNoRank, ranks, array, step);
  EXPECT_TRUE(read(device, sum.total(array), expected.size()) == expected)
      << "array " << array << ", step " << step << ", " << ranks << " ranks";
}
void expect_gathered(exchange::Device& device, const DeviceGather& gather, int ranks,
                     std::size_t array, int step) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    const std::span<const std::byte> bytes = gather.of(rank, array);
    EXPECT_TRUE(read(device, bytes.data(), bytes.size()) == encoding(rank, array, step))
        << "rank " << rank << ", array " << array << ", step " << step << ", " << ranks << " ranks";
  }
}

// Runs `body` on every rank for some steps, between which all ranks meet. A step leaves out some
// arrays.
using Step = std::function<void(std::size_t arrays, int step)>;
void run_steps(Communicator& control, std::size_t arrays, const Step& body) {
  for (int step = 0; step < kSteps; ++step) {
    body(step == 1 ? arrays - 1 : arrays, step);
    ASSERT_TRUE(control.barrier({.by = soon()}).has_value());
  }
}

TEST(NcclSum, GivesEveryRankTheSumsStepAfterStep) {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [ranks](const TestRank& rank) {
      const auto device = rank.open_device();
      ASSERT_NE(device, nullptr);
      auto sum = nccl_sum(rank.control, *device, kArrays, soon());
      ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
      run_steps(rank.control, kArrays.size(), [&](std::size_t arrays, int step) {
        for (std::size_t k = 0; k < arrays; ++k)
          start_sum(*device, **sum, rank.control.rank(), k, step);
        const Result<void> finished = (*sum)->finish(soon());
        ASSERT_TRUE(finished.has_value()) << to_string(finished.error());
        for (std::size_t k = 0; k < arrays; ++k) expect_sum(*device, **sum, ranks, k, step);
      });
    });
  }
}

TEST(NcclGather, HandsOverTheBytesOfAllRanksStepAfterStep) {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [ranks](const TestRank& rank) {
      const auto device = rank.open_device();
      ASSERT_NE(device, nullptr);
      auto gather = nccl_gather(rank.control, *device, kCapacities, soon());
      ASSERT_TRUE(gather.has_value()) << to_string(gather.error());
      run_steps(rank.control, kCapacities.size(), [&](std::size_t arrays, int step) {
        for (std::size_t k = 0; k < arrays; ++k)
          start_gather(*device, **gather, rank.control.rank(), k, step);
        const Result<void> finished = (*gather)->finish(soon());
        ASSERT_TRUE(finished.has_value()) << to_string(finished.error());
        for (std::size_t k = 0; k < arrays; ++k) expect_gathered(*device, **gather, ranks, k, step);
      });
    });
  }
}

// A gather cannot be issued before all ranks know its sizes. The sums behind it wait, on every
// rank.
TEST(NcclOrder, SumsAndGathersOfADeviceAreUnderWayTogether) {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [ranks](const TestRank& rank) {
      const auto device = rank.open_device();
      ASSERT_NE(device, nullptr);
      auto sum = nccl_sum(rank.control, *device, kArrays, soon());
      ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
      auto gather = nccl_gather(rank.control, *device, kCapacities, soon());
      ASSERT_TRUE(gather.has_value()) << to_string(gather.error());
      run_steps(rank.control, kArrays.size(), [&](std::size_t arrays, int step) {
        for (std::size_t k = 0; k < arrays; ++k) {
          start_gather(*device, **gather, rank.control.rank(), k, step);
          start_sum(*device, **sum, rank.control.rank(), k, step);
        }
        ASSERT_TRUE((*sum)->finish(soon()).has_value());
        ASSERT_TRUE((*gather)->finish(soon()).has_value());
        for (std::size_t k = 0; k < arrays; ++k) {
          expect_sum(*device, **sum, ranks, k, step);
          expect_gathered(*device, **gather, ranks, k, step);
        }
      });
    });
  }
}

TEST(NcclOrder, AQueueThatEndsLeavesTheOthersTheirTurns) {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [ranks](const TestRank& rank) {
      const auto device = rank.open_device();
      ASSERT_NE(device, nullptr);
      auto sum = nccl_sum(rank.control, *device, kArrays, soon());
      ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
      auto gather = nccl_gather(rank.control, *device, kCapacities, soon());
      ASSERT_TRUE(gather.has_value()) << to_string(gather.error());
      start_gather(*device, **gather, rank.control.rank(), 0, 0);
      start_sum(*device, **sum, rank.control.rank(), 0, 0);
      gather->reset();
      ASSERT_TRUE((*sum)->finish(soon()).has_value());
      expect_sum(*device, **sum, ranks, 0, 0);
    });
  }
}

TEST(NcclGroup, RanksOfOneGpuAreRefusedByName) {
  const auto refused = check_one_gpu_each({{"host a", "0000:01:00.0"},
                                           {"host a", "0000:02:00.0"},
                                           {"host b", "0000:02:00.0"},
                                           {"host a", "0000:02:00.0"}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(refused.error().peer, 3);
  EXPECT_THAT(
      refused.error().message,
      testing::HasSubstr("ranks 1 and 3 share GPU 0000:02:00.0: NCCL needs a GPU per rank"));
  EXPECT_TRUE(check_one_gpu_each({{"a", "0"}, {"a", "1"}, {"b", "0"}}).has_value());
}

}  // namespace
}  // namespace tally::nccl
