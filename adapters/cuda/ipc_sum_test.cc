#include "adapters/cuda/ipc_sum.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "collective/test_jobs.h"
#include "soon.h"

// Ranks that are threads, over memory and kernels of a GPU.
namespace tally::cuda {
namespace {

using collective::Network;
using collective::run_ranks;
using Floats = std::vector<float>;

constexpr std::size_t kCount = 5000;
constexpr int kSteps = 3;

float value_of(Rank rank, std::size_t i, int step) {
  return 1.0F / static_cast<float>(1 + i + 7 * static_cast<std::size_t>(rank + 10 * step));
}

TEST(IpcSum, RanksAddTheirArraysInTheirOrder) {
  for (const int ranks : {1, 3}) {
    run_ranks(Network::kInProcess, ranks, [&](Job& job) {
      const auto gpu = CudaDevice::open(0);
      ASSERT_TRUE(gpu.has_value()) << to_string(gpu.error());
      auto sum =
          ipc_sum(job.world(), **gpu, {{.type = DataType::kFloat32, .count = kCount}}, soon());
      ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
      for (int step = 0; step < kSteps; ++step) {
        Floats own(kCount), expected(kCount), total(kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
          own[i] = value_of(job.rank(), i, step);
          expected[i] = value_of(0, i, step);
          for (Rank rank = 1; rank < ranks; ++rank) expected[i] += value_of(rank, i, step);
        }
        ASSERT_TRUE((*gpu)->write((*sum)->own(0), std::as_bytes(std::span(own))).has_value());
        ASSERT_TRUE((*sum)->start(0).has_value());
        ASSERT_TRUE((*sum)->finish(soon()).has_value());
        ASSERT_TRUE(
            (*gpu)->read(std::as_writable_bytes(std::span(total)), (*sum)->total(0)).has_value());
        EXPECT_EQ(total, expected) << "step " << step << ", " << ranks << " ranks";
        // Between two steps all ranks meet.
        ASSERT_TRUE(job.world().barrier().has_value());
      }
    });
  }
}

TEST(IpcGather, HandsOverTheBytesOfAllRanks) {
  constexpr int kRanks = 3;
  run_ranks(Network::kInProcess, kRanks, [&](Job& job) {
    const auto byte_of = [](Rank rank, int step) {
      return static_cast<std::byte>(1 + rank + 10 * step);
    };
    const auto gpu = CudaDevice::open(0);
    ASSERT_TRUE(gpu.has_value()) << to_string(gpu.error());
    auto gather = ipc_gather(job.world(), **gpu, {kCount}, soon());
    ASSERT_TRUE(gather.has_value()) << to_string(gather.error());
    for (int step = 0; step < kSteps; ++step) {
      const auto size = kCount - static_cast<std::size_t>(step);
      const std::vector<std::byte> own(size, byte_of(job.rank(), step));
      ASSERT_TRUE((*gpu)->write((*gather)->own(0), own).has_value());
      ASSERT_TRUE((*gather)->start(0, size).has_value());
      ASSERT_TRUE((*gather)->finish(soon()).has_value());
      for (Rank rank = 0; rank < kRanks; ++rank) {
        const std::span<const std::byte> given = (*gather)->of(rank, 0);
        std::vector<std::byte> found(given.size());
        ASSERT_TRUE((*gpu)->read(found, given.data()).has_value());
        EXPECT_EQ(found, std::vector<std::byte>(size, byte_of(rank, step)));
      }
    }
  });
}

}  // namespace
}  // namespace tally::cuda
