#include "adapters/nccl/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "adapters/nccl/test_ranks.h"
#include "soon.h"

// The features of NcclCommunicator that other communicators lack. nccl_conformance_test.cc has the
// rest.
namespace tally::nccl {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr std::size_t kCount = 10000;

// Runs `body` on every rank, with a communicator, and memory of its GPU for kCount floats.
void on_communicators(const std::function<void(NcclCommunicator&, std::span<float>)>& body) {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [&body](const TestRank& rank) {
      SharedBuffer memory;  // outlives the operations of the communicator
      auto made = NcclCommunicator::make(rank.control, rank.gpu, soon());
      ASSERT_TRUE(made.has_value()) << to_string(made.error());
      auto allocated = (*made)->allocate(kCount * sizeof(float));
      ASSERT_TRUE(allocated.has_value()) << to_string(allocated.error());
      memory = std::move(*allocated);
      body(**made, memory.as<float>());
    });
  }
}

std::vector<float> content(std::span<const float> of_gpu) {
  std::vector<float> copy(of_gpu.size());
  EXPECT_EQ(cudaMemcpy(copy.data(), of_gpu.data(), of_gpu.size_bytes(), cudaMemcpyDeviceToHost),
            cudaSuccess);
  return copy;
}

void expect_refused(const Result<void>& outcome, const std::string& reason) {
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(outcome.error().message, HasSubstr(reason));
}

TEST(NcclCommunicator, MemoryThatNcclCannotUseIsRefusedAndHarmsNothing) {
  on_communicators([](NcclCommunicator& world, std::span<float> memory) {
    std::vector<float> ordinary(16);
    expect_refused(world.allreduce(std::span(ordinary)),
                   "allreduce: the input is in ordinary memory, and NCCL needs memory of GPU 0");
    expect_refused(world.run({.operation = Operation::kBroadcast,
                              .input = reinterpret_cast<std::byte*>(memory.data()) + 2,
                              .output = reinterpret_cast<std::byte*>(memory.data()) + 2,
                              .count = 16,
                              .type = DataType::kFloat32}),
                   "memory of the GPU must be aligned to its elements");
    EXPECT_TRUE(world.allreduce(memory).has_value());
    EXPECT_THAT(content(memory), Each(0.0F));
  });
}

TEST(NcclCommunicator, AnOperationBeginsAfterTheWorkOfTheFollowedStream) {
  on_communicators([](NcclCommunicator& world, std::span<float> memory) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    float* pinned = nullptr;
    ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), memory.size_bytes()), cudaSuccess);
    std::fill_n(pinned, kCount, 1.0F);
    std::promise<void> release;
    std::future<void> released = release.get_future();
    const auto wait = [](void* data) { static_cast<std::future<void>*>(data)->wait(); };
    ASSERT_EQ(cudaLaunchHostFunc(stream, wait, &released), cudaSuccess);
    ASSERT_EQ(
        cudaMemcpyAsync(memory.data(), pinned, memory.size_bytes(), cudaMemcpyHostToDevice, stream),
        cudaSuccess);
    world.follow(stream);
    Handle sum = world.start({.operation = Operation::kAllreduce,
                              .input = memory.data(),
                              .output = memory.data(),
                              .count = kCount,
                              .type = DataType::kFloat32,
                              .by = soon()});
    EXPECT_FALSE(sum.poll());
    release.set_value();
    ASSERT_TRUE(sum.wait().has_value());
    EXPECT_THAT(content(memory), Each(static_cast<float>(world.size())));
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  });
}

TEST(NcclCommunicator, AReceiveThatNobodyAwaitsHarmsNoneWhenTheCommunicatorEnds) {
  on_communicators([](NcclCommunicator& world, std::span<float> memory) {
    if (world.size() == 1) return;
    const Rank right = (world.rank() + 1) % world.size();
    const Rank left = (world.rank() + world.size() - 1) % world.size();
    (void)world.start({.operation = Operation::kReceive,
                       .output = memory.data(),
                       .count = kCount,
                       .type = DataType::kFloat32,
                       .root = left});
    // The message arrives while its receiver waits for the others at the end.
    if (world.rank() != 0) return;
    EXPECT_TRUE(world.send(std::span<const float>(memory), right).has_value());
  });
}

}  // namespace
}  // namespace tally::nccl
