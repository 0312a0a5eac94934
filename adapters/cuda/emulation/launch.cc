#include "adapters/cuda/emulation/launch.h"

#include <utility>

#include "adapters/cuda/emulation/block.h"
#include "adapters/cuda/emulation/properties.h"
#include "adapters/cuda/emulation/stream.h"

namespace tally::cuda::emulation {
namespace {

bool is_valid(const dim3& grid, const dim3& block) {
  const bool has_one_dimension = grid.y == 1 && grid.z == 1 && block.y == 1 && block.z == 1;
  return has_one_dimension && grid.x > 0 && block.x > 0 && block.x <= unsigned{kMostThreads};
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  const Point end = streams().enqueue(stream, std::move(work));
  return outcome(end.stream == nullptr ? cudaErrorInvalidResourceHandle : cudaSuccess);
}

}  // namespace

cudaError_t launch(std::function<void()> kernel, dim3 grid, dim3 block, cudaStream_t stream) {
  if (!is_valid(grid, block)) return outcome(cudaErrorInvalidConfiguration);
  return enqueue(stream, [kernel = std::move(kernel), blocks = grid.x, threads = block.x] {
    run_blocks(kernel, blocks, threads);
  });
}

cudaError_t launch_together(std::function<void()> kernel, dim3 grid, dim3 block,
                            cudaStream_t stream) {
  if (!is_valid(grid, block)) return outcome(cudaErrorInvalidConfiguration);
  if (grid.x > kMultiprocessors * (kMultiprocessorThreads / block.x))
    return outcome(cudaErrorCooperativeLaunchTooLarge);
  return enqueue(stream, [kernel = std::move(kernel), blocks = grid.x, threads = block.x] {
    run_blocks_together(kernel, blocks, threads);
  });
}

cudaError_t resident_blocks_of(int* blocks, int threads) {
  if (threads <= 0 || threads > kMostThreads) return outcome(cudaErrorInvalidValue);
  *blocks = kMultiprocessorThreads / threads;
  return cudaSuccess;
}

}  // namespace tally::cuda::emulation
