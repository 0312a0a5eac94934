#include "adapters/cuda/emulation/block.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace tally::cuda::emulation {
namespace {

constexpr unsigned kAll = 0xFFFFFFFFU;

TEST(Block, AllThreadsOfAllBlocksRunOnce) {
  std::vector<int> calls(3 * 70);
  run_blocks([&] { ++calls[blockIdx.x * blockDim.x + threadIdx.x]; }, 3, 70);
  EXPECT_EQ(calls, std::vector<int>(calls.size(), 1));
}

// A thread that runs alone to its end would read what the others have not yet written.
TEST(Block, ThreadsWaitForTheirBlock) {
  std::vector<unsigned> values(2 * 96);
  std::vector<unsigned> mirrored(values.size());
  run_blocks(
      [&] {
        unsigned* const own = values.data() + blockIdx.x * 96;
        for (unsigned round = 1; round < 4; ++round) {
          own[threadIdx.x] = threadIdx.x * round;
          __syncthreads();
          mirrored[blockIdx.x * 96 + threadIdx.x] = own[95 - threadIdx.x];
          __syncthreads();
        }
      },
      2, 96);
  for (unsigned i = 0; i < mirrored.size(); ++i) EXPECT_EQ(mirrored[i], 3 * (95 - i % 96));
}

TEST(Block, ThreadsThatHaveEndedDoNotHoldUpTheBlock) {
  unsigned count = 0;
  run_blocks(
      [&] {
        if (threadIdx.x >= 40) return;
        __syncthreads();
        ++count;
      },
      1, 64);
  EXPECT_EQ(count, 40U);
}

TEST(Block, BlocksThatRunTogetherWaitForTheGrid) {
  constexpr unsigned kBlocks = 4, kThreads = 64;
  std::vector<unsigned> values(kBlocks * kThreads);
  std::vector<unsigned> sums(values.size());
  run_blocks_together(
      [&] {
        const unsigned own = blockIdx.x * kThreads + threadIdx.x;
        for (unsigned round = 1; round < 4; ++round) {
          values[own] = own * round;
          wait_for_grid();
          sums[own] = std::accumulate(values.begin(), values.end(), 0U);
          wait_for_grid();
        }
      },
      kBlocks, kThreads);
  const unsigned n = kBlocks * kThreads;
  EXPECT_EQ(sums, std::vector<unsigned>(n, 3 * (n * (n - 1) / 2)));
}

// Calls `use` in each lane of a warp; returns the results.
template <typename Use>
auto of_lanes(const Use& use) {
  std::vector<decltype(use(0U))> results(32);
  run_blocks([&] { results[threadIdx.x] = use(threadIdx.x); }, 1, 32);
  return results;
}

TEST(Block, LanesExchangeValues) {
  const auto from = of_lanes([](unsigned lane) { return __shfl_sync(kAll, lane, 5); });
  const auto up = of_lanes([](unsigned lane) { return __shfl_up_sync(kAll, lane, 2); });
  const auto down = of_lanes([](unsigned lane) { return __shfl_down_sync(kAll, lane, 2); });
  const auto across = of_lanes([](unsigned lane) { return __shfl_xor_sync(kAll, 0.5 * lane, 8); });
  const auto rows = of_lanes([](unsigned lane) { return __shfl_down_sync(kAll, lane, 1, 8); });
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(from[lane], 5U);
    EXPECT_EQ(up[lane], lane < 2 ? lane : lane - 2);
    EXPECT_EQ(down[lane], lane < 30 ? lane + 2 : lane);
    EXPECT_EQ(across[lane], 0.5 * (lane ^ 8U));
    EXPECT_EQ(rows[lane], lane % 8 == 7 ? lane : lane + 1);
  }
}

TEST(Block, LanesJoinTheirValues) {
  const auto ballot = of_lanes([](unsigned lane) { return __ballot_sync(kAll, lane % 3 == 0); });
  const auto sum = of_lanes([](unsigned lane) { return __reduce_add_sync(kAll, lane); });
  const auto most = of_lanes([](unsigned lane) { return __reduce_max_sync(kAll, 100 - lane); });
  EXPECT_EQ(ballot, std::vector<unsigned>(32, 0x49249249U));
  EXPECT_EQ(sum, std::vector<unsigned>(32, 496));
  EXPECT_EQ(most, std::vector<unsigned>(32, 100));
}

TEST(Block, GroupsOfLanesExchangeValuesAmongThemselves) {
  const auto sums = of_lanes([](unsigned lane) {
    return lane < 10 ? __reduce_add_sync(0x3FF, lane) : __reduce_add_sync(~0x3FFU, lane);
  });
  for (unsigned lane = 0; lane < 32; ++lane) EXPECT_EQ(sums[lane], lane < 10 ? 45U : 451U);
}

TEST(BlockDeathTest, CallsWhoseBehaviourIsUndefinedEndTheProcess) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  // A lane that has ended.
  EXPECT_DEATH(of_lanes([](unsigned lane) {
                 if (lane != 0) (void)__ballot_sync(kAll, 1);
                 return 0;
               }),
               "check failed");
  // Different calls of one warp.
  EXPECT_DEATH(of_lanes([](unsigned lane) {
                 return lane == 0 ? __ballot_sync(kAll, 1) : __reduce_add_sync(kAll, 1);
               }),
               "check failed");
  EXPECT_DEATH(run_blocks([] { wait_for_grid(); }, 1, 1), "check failed");
}

TEST(EmulatedHalf, RoundsToTheNearestTiesToEven) {
  const auto rounded = [](float value) { return __half_as_ushort(__float2half_rn(value)); };
  EXPECT_EQ(rounded(1.0F), 0x3C00);
  EXPECT_EQ(rounded(-2.0F), 0xC000);
  EXPECT_EQ(rounded(1.0F + 0x1p-11F), 0x3C00);
  EXPECT_EQ(rounded(1.0F + 0x3p-11F), 0x3C02);
  EXPECT_EQ(rounded(65519.0F), 0x7BFF);
  EXPECT_EQ(rounded(65520.0F), 0x7C00);
  EXPECT_EQ(rounded(1e30F), 0x7C00);
  EXPECT_EQ(rounded(0x1p-24F), 0x0001);
  EXPECT_EQ(rounded(0x1p-25F), 0x0000);
  EXPECT_EQ(rounded(0x1.8p-25F), 0x0001);
  EXPECT_EQ(rounded(std::numeric_limits<float>::quiet_NaN()), 0x7FFF);
}

TEST(EmulatedHalf, EveryNumberComesBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
    ASSERT_EQ(std::isnan(value), (bits & 0x7FFFU) > 0x7C00U) << bits;
    if (std::isnan(value)) continue;
    ASSERT_EQ(__half_as_ushort(__float2half_rn(value)), bits);
  }
}

TEST(EmulatedBFloat16, RoundsToTheNearestTiesToEven) {
  const auto rounded = [](float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); };
  EXPECT_EQ(rounded(1.0F), 0x3F80);
  EXPECT_EQ(rounded(1.0F + 0x1p-8F), 0x3F80);
  EXPECT_EQ(rounded(1.0F + 0x3p-8F), 0x3F82);
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(rounded(std::numeric_limits<float>::quiet_NaN()), 0x7FFF);
}

}  // namespace
}  // namespace tally::cuda::emulation
