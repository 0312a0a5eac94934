#include "exchange/memory/memory_factory.h"

#include "collective/shared_buffer.h"

namespace tally::exchange {
namespace {

class SharedMemory final : public MemoryFactory {
 public:
  SharedMemory(Communicator& world, const Tiers& tiers) : world_(world), tiers_(tiers) {}

  Result<SharedBuffer> allocate(std::size_t bytes) override { return world_.allocate(bytes); }

  Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& own, Deadline by) override {
    TALLY_TRY(const auto all, world_.share(own, by));
    std::vector<std::span<std::byte>> views;
    for (const Rank neighbour : tiers_.neighbours)
      views.push_back(all[static_cast<std::size_t>(neighbour)]);
    return views;
  }

 private:
  Communicator& world_;
  const Tiers& tiers_;
};

class OrdinaryMemory final : public MemoryFactory {
 public:
  Result<SharedBuffer> allocate(std::size_t bytes) override {
    return SharedBuffer::Owner::from_heap(bytes);
  }
  Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& own, Deadline) override {
    return std::vector<std::span<std::byte>>{own.bytes()};
  }
};

}  // namespace

std::unique_ptr<MemoryFactory> shared_memory(Communicator& world, const Tiers& tiers) {
  return std::make_unique<SharedMemory>(world, tiers);
}

std::unique_ptr<MemoryFactory> ordinary_memory() { return std::make_unique<OrdinaryMemory>(); }

}  // namespace tally::exchange
