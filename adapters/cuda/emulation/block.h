#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

// The threads of a kernel, carried out by the CPU. A thread of a kernel is a fiber, and all fibers
// of a block run on one thread of the operating system, one at a time. A fiber runs until it waits
// for others, so that races inside a block do not show.

// The variables of CUDA C++ that tell a thread its place.
// NOLINTBEGIN(readability-identifier-naming): the names of CUDA.
inline constinit thread_local uint3 threadIdx{};
inline constinit thread_local uint3 blockIdx{};
inline constinit thread_local dim3 blockDim{};
inline constinit thread_local dim3 gridDim{};
// NOLINTEND(readability-identifier-naming)

namespace tally::cuda::emulation {

// The value that a lane of a warp gives the other lanes of `mask`, which make the same call.
struct LaneCall {
  enum class Kind : std::uint8_t {
    // All lanes get the same answer.
    kWait,
    kBallot,
    kAdd,
    kMax,
    // Each lane gets the value of one lane.
    kFrom,       // of lane `argument`
    kFromBelow,  // of the lane that is `argument` lower
    kFromAbove,  // of the lane that is `argument` higher
    kFromXor,    // of lane xor `argument`
  };
  Kind kind = Kind::kWait;
  unsigned mask = 0;
  std::uint64_t value = 0;
  unsigned argument = 0;
  int width = 32;  // lanes in a row that exchange values among themselves
};

// Calls of a kernel's thread. They end the process where CUDA's behaviour would be undefined: a
// lane of the mask makes another call or has ended, or threads wait for each other.
std::uint64_t with_lanes(const LaneCall& call);
void wait_for_block();
void wait_for_grid();

// Runs a kernel on this thread, one block after the other.
void run_blocks(const std::function<void()>& kernel, unsigned blocks, unsigned threads);
// Runs all blocks at the same time: they may wait for each other.
void run_blocks_together(const std::function<void()>& kernel, unsigned blocks, unsigned threads);

}  // namespace tally::cuda::emulation
