#include "adapters/cuda/peer_gather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>

#include "adapters/cuda/test_memory_export.h"
#include "collective/test_jobs.h"
#include "exchange/device/host_device.h"
#include "soon.h"

namespace tally::cuda {
namespace {

using collective::Network;
using collective::run_ranks;

constexpr std::size_t kCapacities[] = {1000, 256, 1};

std::byte byte_of(Rank rank, std::size_t index, int step) {
  return static_cast<std::byte>(1 + rank + 5 * static_cast<int>(index) + 20 * step);
}
std::size_t size_of_part(Rank rank, std::size_t index, int step) {
  return (kCapacities[index] + static_cast<std::size_t>(rank + step)) % (kCapacities[index] + 1);
}

bool holds(std::span<const std::byte> bytes, Rank rank, std::size_t index, int step) {
  return bytes.size() == size_of_part(rank, index, step) &&
         std::all_of(bytes.begin(), bytes.end(),
                     [&](std::byte each) { return each == byte_of(rank, index, step); });
}

TEST(PeerGather, HandsOverTheBytesOfAllRanksStepAfterStep) {
  for (const int ranks : {1, 2, 4}) {
    run_ranks(Network::kInProcess, ranks, [&](Job& job) {
      const auto device = exchange::host_device();
      NoMemoryExport between;
      auto gather = make_peer_gather(job.world(), *device, between,
                                     {std::begin(kCapacities), std::end(kCapacities)}, soon());
      ASSERT_TRUE(gather.has_value()) << to_string(gather.error());
      // Ranks read the bytes of a step while others write those of the next one.
      for (int step = 0; step < 6; ++step) {
        const std::size_t arrays = step == 2 ? 1 : std::size(kCapacities);
        for (std::size_t k = 0; k < arrays; ++k) {
          const std::size_t size = size_of_part(job.rank(), k, step);
          std::fill_n((*gather)->own(k), size, byte_of(job.rank(), k, step));
          ASSERT_TRUE((*gather)->start(k, size).has_value());
        }
        ASSERT_TRUE((*gather)->finish(soon()).has_value());
        for (Rank rank = 0; rank < ranks; ++rank)
          for (std::size_t k = 0; k < arrays; ++k)
            EXPECT_TRUE(holds((*gather)->of(rank, k), rank, k, step))
                << "rank " << rank << ", array " << k << ", step " << step;
      }
    });
  }
}

TEST(PeerGather, NamesTheRankThatIsLost) {
  std::latch made(2);
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const auto device = exchange::host_device();
    NoMemoryExport between;
    auto gather = make_peer_gather(job.world(), *device, between, {64}, soon());
    ASSERT_TRUE(gather.has_value()) << to_string(gather.error());
    made.arrive_and_wait();
    if (job.rank() == 1) return job.close();
    ASSERT_TRUE((*gather)->start(0, 64).has_value());
    const auto finished = (*gather)->finish(soon());
    ASSERT_FALSE(finished.has_value());
    EXPECT_EQ(finished.error().code, ErrorCode::kPeerLost);
    EXPECT_EQ(finished.error().peer, 1);
    EXPECT_EQ((*gather)->start(0, 64).error().peer, 1);
  });
}

}  // namespace
}  // namespace tally::cuda
