#include "adapters/cuda/peer_memory.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>

#include "base/errors.h"

namespace tally::cuda {
namespace {

using exchange::DeviceMemory;

// A process, also among processes of several containers.
struct ProcessId {
  std::uint64_t random = 0;
  std::int64_t pid = 0;
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};
ProcessId this_process() {
  static const std::uint64_t kRandom = [] {
    std::random_device source;
    return std::uint64_t{source()} << 32 | source();
  }();
  return {.random = kRandom, .pid = ::getpid()};
}

// A block, as its rank offers it to the others.
struct Offer {
  ProcessId process;
  const DeviceMemory* memory = nullptr;  // valid in `process`, until the offers are accepted
  MemoryExport::Handle handle{};
};

template <typename T>
Result<std::vector<T>> gather_all(Communicator& world, const T& own, Deadline by) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(world.size()));
  TALLY_TRY(world.run({.operation = Operation::kAllgather,
                       .input = &own,
                       .output = all.data(),
                       .count = sizeof(T),
                       .type = DataType::kUInt8,
                       .by = by}));
  return all;
}

// Returns an error if a rank has one: its own, or that of the first of the others.
Result<void> agree(Communicator& world, const Result<void>& own, Deadline by) {
  struct Outcome {
    std::int32_t failed = 0;
    ErrorCode code = ErrorCode::kSystem;
    std::array<char, 240> message{};
  };
  Outcome outcome;
  if (!own) {
    outcome.failed = 1;
    outcome.code = own.error().code;
    const std::string& message = own.error().message;
    std::memcpy(outcome.message.data(), message.data(),
                std::min(message.size(), outcome.message.size() - 1));
  }
  const auto all = gather_all(world, outcome, by);
  if (!own) return own;
  if (!all) return all.error();
  for (std::size_t r = 0; r < all->size(); ++r) {
    Outcome other = (*all)[r];
    other.message.back() = 0;
    if (other.failed != 0)
      return Error{.code = other.code,
                   .peer = static_cast<Rank>(r),
                   .message = fmt::format("rank {}: {}", r, other.message.data())};
  }
  return {};
}

// The offered blocks, as this process addresses them.
Result<std::vector<PeerMemory::Block>> accept(const std::vector<Offer>& offers,
                                              MemoryExport& between) {
  std::vector<PeerMemory::Block> blocks;
  for (const Offer& offer : offers) {
    if (offer.process == this_process()) {
      blocks.push_back({.data = offer.memory->data, .owner = offer.memory->owner});
    } else {
      TALLY_TRY(const std::shared_ptr<std::byte> opened, between.import_memory(offer.handle));
      blocks.push_back({.data = opened.get(), .owner = opened});
    }
  }
  return blocks;
}

}  // namespace

PeerMemory::~PeerMemory() {
  // A device that has not ended its work by then has failed, and frees nothing.
  constexpr auto kTimeout = std::chrono::minutes(5);
  (void)device_.wait(Deadline::after(kTimeout)).has_value();
}

Result<std::unique_ptr<PeerMemory>> share_memory(Communicator& world, exchange::Device& device,
                                                 MemoryExport& between, std::size_t bytes,
                                                 Deadline by) {
  // Small allocations of CUDA lie side by side in blocks of this size, and a process that opens one
  // of them opens the whole block.
  constexpr std::size_t kUnit = std::size_t{2} << 20;
  DeviceMemory block;
  Offer own{.process = this_process(), .memory = &block};
  const auto offer = [&]() -> Result<void> {
    TALLY_TRY(block, device.allocate((bytes / kUnit + 1) * kUnit));
    TALLY_TRY(own.handle, between.export_memory(block));
    // Others may use the memory when it is cleared.
    return device.wait(by);
  };
  TALLY_TRY(agree(world, offer(), by));
  TALLY_TRY(const std::vector<Offer> offers, gather_all(world, own, by));
  Result<std::vector<PeerMemory::Block>> blocks = accept(offers, between);
  // When all ranks agree, nobody reads `block` any more.
  TALLY_TRY(agree(world, blocks ? Result<void>() : Result<void>(blocks.error()), by));
  return std::make_unique<PeerMemory>(device, block.bytes, std::move(*blocks));
}

}  // namespace tally::cuda
