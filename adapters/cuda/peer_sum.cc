#include "adapters/cuda/peer_sum.h"

#include <optional>
#include <utility>

#include "exchange/memory/parameter_layout.h"

// finish() has three parts:
//
//   wait     until the device has gathered this rank's arrays; then a barrier: the arrays of all
//            ranks are in place, and nobody reads the total of the last step any more
//   sum      this rank's slice of each array, for all ranks
//   wait     until the device has the slices; then a barrier: the total is complete
//
// Sums do not run while backward computes: the ranks share one device, which is already saturated.
// Each array is read once and the total is written once per step, n + 1 arrays for n ranks; were
// each rank to sum for itself, they would move n * (n + 1).
namespace tally::cuda {
namespace {

using exchange::DeviceSum;

// Arrays begin where the widest loads can.
std::size_t room_for(const DeviceSum::Array& array) {
  constexpr std::size_t kAlignment = 512;
  return (array.count * size_of(array.type) + kAlignment - 1) / kAlignment * kAlignment;
}

class PeerSum final : public DeviceSum {
 public:
  PeerSum(Communicator& world, exchange::Device& device, std::vector<Array> arrays)
      : world_(world), device_(device), arrays_(std::move(arrays)) {
    for (const Array& array : arrays_) {
      offsets_.push_back(own_bytes_);
      own_bytes_ += room_for(array);
    }
  }

  // Rank 0's block has its own arrays, and then the total.
  Result<void> share(MemoryExport& between, Deadline by) {
    const std::size_t bytes = own_bytes_ * (world_.rank() == 0 ? 2 : 1);
    TALLY_TRY(memory_, share_memory(world_, device_, between, bytes, by));
    return {};
  }

  std::byte* own(std::size_t index) const override {
    return memory_->of(world_.rank()) + offsets_[index];
  }
  std::byte* total(std::size_t index) const override {
    return memory_->of(0) + own_bytes_ + offsets_[index];
  }
  Result<void> start(std::size_t index) override {
    if (ended_) return *ended_;
    started_.push_back(index);
    return {};
  }
  Result<void> finish(Deadline by) override {
    if (ended_) return *ended_;
    if (started_.empty()) return {};
    Result<void> done = sum_started(by);
    started_.clear();
    if (!done) ended_ = done.error();
    return done;
  }
  void abort(const Error& why) override { world_.abort(why); }
  std::size_t bytes() const override { return memory_->bytes(); }

 private:
  Result<void> sum_started(Deadline by) {
    TALLY_TRY(device_.wait(by));
    TALLY_TRY(world_.barrier({.by = by}));
    for (const std::size_t index : started_) TALLY_TRY(sum_slice(index));
    TALLY_TRY(device_.wait(by));
    return world_.barrier({.by = by});
  }

  Result<void> sum_slice(std::size_t index) {
    const Array& array = arrays_[index];
    const exchange::Range slice = exchange::part_of(
        {0, array.count}, {.parts = world_.size(), .index = world_.rank(), .first = index});
    if (slice.empty()) return {};
    const std::size_t first = slice.begin * size_of(array.type);
    std::vector<const std::byte*> from;
    for (Rank rank = 0; rank < world_.size(); ++rank)
      from.push_back(memory_->of(rank) + offsets_[index] + first);
    return device_.sum(array.type, from, total(index) + first, slice.count());
  }

  Communicator& world_;
  exchange::Device& device_;
  const std::vector<Array> arrays_;
  std::vector<std::size_t> offsets_;  // in each rank's block, and in the total
  std::size_t own_bytes_ = 0;
  std::unique_ptr<PeerMemory> memory_;
  std::vector<std::size_t> started_;
  std::optional<Error> ended_;
};

}  // namespace

Result<std::unique_ptr<DeviceSum>> make_peer_sum(Communicator& world, exchange::Device& device,
                                                 MemoryExport& between,
                                                 const std::vector<DeviceSum::Array>& arrays,
                                                 Deadline by) {
  auto sum = std::make_unique<PeerSum>(world, device, arrays);
  TALLY_TRY(sum->share(between, by));
  return std::unique_ptr<DeviceSum>(std::move(sum));
}

}  // namespace tally::cuda
