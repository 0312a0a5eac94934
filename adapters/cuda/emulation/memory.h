#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "adapters/cuda/emulation/stream.h"
#include "base/mutex.h"

namespace tally::cuda::emulation {

// The memory of the GPU and pinned memory of the host, both of which are ordinary memory. New
// memory is filled with bytes that read as NaN.
class Memory final {
 public:
  static constexpr std::size_t kDeviceBytes = std::size_t{4} << 30;

  struct Allocation {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    cudaMemoryType type = cudaMemoryTypeDevice;
    std::uint64_t number = 0;  // never used again
  };

  // Null if the GPU has less than `bytes`.
  void* allocate(cudaMemoryType type, std::size_t bytes);
  // False if no allocation of this type begins at `data`. The memory is given back when all streams
  // have done the work that they have now; unlike CUDA, this does not wait for it.
  bool release(cudaMemoryType type, void* data);
  std::size_t free_bytes();

  // The allocation with this address in it.
  std::optional<Allocation> find(const void* address);
  // Whether work of the GPU may use these bytes as memory of this type. Memory of the host need not
  // be pinned.
  bool has(cudaMemoryType type, const void* address, std::size_t bytes);

 private:
  struct Release {
    void operator()(std::byte* data) const;
  };
  struct Block {
    Allocation allocation;
    std::unique_ptr<std::byte, Release> memory;
  };
  // Memory that is no longer valid, and the work that may use it.
  struct Released {
    Block block;
    std::vector<Point> users;
  };
  void drop_unused() TALLY_REQUIRES(mutex_);

  Mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_ TALLY_GUARDED_BY(mutex_);
  std::vector<Released> released_ TALLY_GUARDED_BY(mutex_);
  std::size_t used_ TALLY_GUARDED_BY(mutex_) = 0;  // of the GPU
  std::uint64_t allocations_ TALLY_GUARDED_BY(mutex_) = 0;
};

Memory& memory();

}  // namespace tally::cuda::emulation
