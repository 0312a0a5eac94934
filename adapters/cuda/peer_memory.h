#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "exchange/device/device.h"
#include "tally/communicator.h"

namespace tally::cuda {

// How memory of one device passes between processes.
class MemoryExport {
 public:
  using Handle = std::array<std::byte, 64>;
  virtual ~MemoryExport() = default;
  // `memory` is what Device::allocate() has returned.
  virtual Result<Handle> export_memory(const exchange::DeviceMemory& memory) = 0;
  // The memory behind another process's handle, at an address of this process; null never.
  virtual Result<std::shared_ptr<std::byte>> import_memory(const Handle& handle) = 0;
};

// One block of memory of every rank, as this process addresses them. The destructor waits until the
// device has done its work, which may still read them. It does not wait for other ranks: they end
// at their own time, and some may be lost.
class PeerMemory final {
 public:
  // A block of a rank. `owner` keeps this rank's address of it. CUDA does not define what becomes
  // of memory that is freed while other processes have it open. Tally relies on the driver for
  // Linux, which keeps it until the last of them has closed it (tests/process/nccl reads such
  // memory): the last update of a rank may read a total that its owner has given up. No rank writes
  // to such memory, because all have left finish() by then.
  struct Block {
    std::byte* data = nullptr;
    std::shared_ptr<const void> owner;
  };
  // `blocks` are by rank, and this rank's has `bytes`. `device` must outlive the memory.
  PeerMemory(exchange::Device& device, std::size_t bytes, std::vector<Block> blocks)
      : device_(device), bytes_(bytes), blocks_(std::move(blocks)) {}
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  std::byte* of(Rank rank) const { return blocks_[static_cast<std::size_t>(rank)].data; }
  // Of this rank's block.
  std::size_t bytes() const { return bytes_; }

 private:
  exchange::Device& device_;
  const std::size_t bytes_;
  const std::vector<Block> blocks_;
};

// Allocates at least `bytes` on `device` and makes them known to all ranks. Called by all ranks,
// each with its own number of bytes; if one fails, each returns an error. Threads of one process
// read each other's variables meanwhile, so one of them must not pass its deadline long before
// another.
Result<std::unique_ptr<PeerMemory>> share_memory(Communicator& world, exchange::Device& device,
                                                 MemoryExport& between, std::size_t bytes,
                                                 Deadline by);

}  // namespace tally::cuda
