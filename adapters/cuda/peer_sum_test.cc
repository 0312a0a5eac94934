#include "adapters/cuda/peer_sum.h"

#include <gtest/gtest.h>

#include <latch>

#include "adapters/cuda/cuda_device.h"
#include "adapters/cuda/test_memory_export.h"
#include "collective/test_jobs.h"
#include "exchange/device/host_device.h"
#include "soon.h"

// The ranks are threads, and their device is ordinary memory unless a test says otherwise.
namespace tally::cuda {
namespace {

using collective::Network;
using collective::run_ranks;
using exchange::DeviceSum;

constexpr std::size_t kCounts[] = {20'000, 1, 4096, 0, 12'345};

std::vector<DeviceSum::Array> test_arrays() {
  std::vector<DeviceSum::Array> arrays;
  for (const std::size_t count : kCounts)
    arrays.push_back(
        {.type = arrays.size() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat64, .count = count});
  return arrays;
}

template <typename T>
T part_of(Rank rank, std::size_t i, int step) {
  return static_cast<T>(1.0 / (1 + static_cast<double>(i) + 7 * rank + 100 * step));
}

template <typename T>
void write_own(DeviceSum& sum, std::size_t index, Rank rank, int step) {
  T* const own = reinterpret_cast<T*>(sum.own(index));
  for (std::size_t i = 0; i < kCounts[index]; ++i) own[i] = part_of<T>(rank, i, step);
}

template <typename T>
bool has_total(const DeviceSum& sum, std::size_t index, int ranks, int step) {
  const T* const total = reinterpret_cast<const T*>(sum.total(index));
  for (std::size_t i = 0; i < kCounts[index]; ++i) {
    T expected = part_of<T>(0, i, step);
    for (Rank rank = 1; rank < ranks; ++rank) expected += part_of<T>(rank, i, step);
    if (expected != total[i]) return false;
  }
  return true;
}

TEST(PeerSum, AddsInTheOrderOfTheRanksStepAfterStep) {
  for (const int ranks : {1, 2, 3, 4}) {
    run_ranks(Network::kInProcess, ranks, [&](Job& job) {
      const auto device = exchange::host_device();
      NoMemoryExport between;
      auto sum = make_peer_sum(job.world(), *device, between, test_arrays(), soon());
      ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
      for (int step = 0; step < 4; ++step) {
        // A step may sum only some arrays.
        const std::size_t arrays = step == 1 ? 2 : std::size(kCounts);
        for (std::size_t k = 0; k < arrays; ++k) {
          if (k % 2 == 0)
            write_own<float>(**sum, k, job.rank(), step);
          else
            write_own<double>(**sum, k, job.rank(), step);
          ASSERT_TRUE((*sum)->start(k).has_value());
        }
        ASSERT_TRUE((*sum)->finish(soon()).has_value());
        for (std::size_t k = 0; k < arrays; ++k)
          EXPECT_TRUE(k % 2 == 0 ? has_total<float>(**sum, k, ranks, step)
                                 : has_total<double>(**sum, k, ranks, step))
              << "array " << k << ", step " << step << ", " << ranks << " ranks";
        // Between two steps all ranks meet.
        ASSERT_TRUE(job.world().barrier().has_value());
      }
    });
  }
}

TEST(PeerSum, AllRanksFailIfOneHasNotEnoughMemory) {
  run_ranks(Network::kInProcess, 3, [](Job& job) {
    // The address sanitizer would end the process if a host device were asked for this.
    const auto gpu = CudaDevice::open(0);
    ASSERT_TRUE(gpu.has_value()) << to_string(gpu.error());
    NoMemoryExport between;
    const std::size_t count = job.rank() == 1 ? std::size_t{1} << 60 : 16;
    const auto sum = make_peer_sum(job.world(), **gpu, between,
                                   {{.type = DataType::kFloat32, .count = count}}, soon());
    ASSERT_FALSE(sum.has_value());
    EXPECT_EQ(sum.error().code, ErrorCode::kExhausted);
    EXPECT_EQ(sum.error().peer, job.rank() == 1 ? kNoRank : 1);
    // The communicator is whole.
    EXPECT_TRUE(job.world().barrier().has_value());
  });
}

TEST(PeerSum, NamesTheRankThatIsLost) {
  std::latch made(3);
  run_ranks(Network::kInProcess, 3, [&](Job& job) {
    const auto device = exchange::host_device();
    NoMemoryExport between;
    auto sum = make_peer_sum(job.world(), *device, between, test_arrays(), soon());
    ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
    made.arrive_and_wait();
    if (job.rank() == 1) return job.close();
    ASSERT_TRUE((*sum)->start(0).has_value());
    const auto finished = (*sum)->finish(soon());
    ASSERT_FALSE(finished.has_value());
    EXPECT_EQ(finished.error().code, ErrorCode::kPeerLost);
    EXPECT_EQ(finished.error().peer, 1);
    EXPECT_EQ((*sum)->start(0).error().code, ErrorCode::kPeerLost);
    EXPECT_EQ((*sum)->finish(soon()).error().peer, 1);
  });
}

// Rank 0 has the total. Others may still read it when rank 0 has given it up.
TEST(PeerSum, TheTotalOutlivesTheRankThatAllocatedIt) {
  std::latch gone(2);
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const auto device = exchange::host_device();
    NoMemoryExport between;
    auto sum = make_peer_sum(job.world(), *device, between, test_arrays(), soon());
    ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
    write_own<float>(**sum, 0, job.rank(), 5);
    ASSERT_TRUE((*sum)->start(0).has_value());
    ASSERT_TRUE((*sum)->finish(soon()).has_value());
    if (job.rank() == 0) sum->reset();
    gone.arrive_and_wait();
    if (job.rank() == 1) {
      EXPECT_TRUE(has_total<float>(**sum, 0, 2, 5));
    }
  });
}

}  // namespace
}  // namespace tally::cuda
