#include "adapters/cuda/peer_gather.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/errors.h"

// finish() waits until the device has written this rank's bytes, and then gathers the sizes, which
// all ranks send after their bytes are in place. Nothing is copied.
//
// A rank may write its next bytes while others still read the last ones, so an array has two places
// in turn. The place of step k is written again in step k + 2, after finish() of step k + 1, which
// other ranks have entered after waiting for all reads of step k.
namespace tally::cuda {
namespace {

using exchange::DeviceGather;

class PeerGather final : public DeviceGather {
 public:
  PeerGather(Communicator& world, exchange::Device& device,
             const std::vector<std::size_t>& capacities)
      : world_(world),
        device_(device),
        sizes_(capacities.size(),
               std::vector<std::size_t>(static_cast<std::size_t>(world.size()))) {
    for (const std::size_t capacity : capacities) {
      constexpr std::size_t kAlignment = 256;
      const std::size_t room = (capacity + kAlignment - 1) / kAlignment * kAlignment;
      arrays_.push_back({.capacity = capacity, .places = {room_, room_ + room}});
      room_ += 2 * room;
    }
  }

  Result<void> share(MemoryExport& between, Deadline by) {
    TALLY_TRY(memory_, share_memory(world_, device_, between, room_, by));
    return {};
  }

  std::byte* own(std::size_t index) const override {
    return memory_->of(world_.rank()) + arrays_[index].places[arrays_[index].next];
  }
  Result<void> start(std::size_t index, std::size_t bytes) override {
    if (ended_) return *ended_;
    TALLY_CHECK(bytes <= arrays_[index].capacity);
    started_.push_back(index);
    own_sizes_.push_back(bytes);
    return {};
  }
  Result<void> finish(Deadline by) override {
    if (ended_) return *ended_;
    if (started_.empty()) return {};
    Result<void> done = hand_over(by);
    started_.clear();
    own_sizes_.clear();
    if (!done) ended_ = done.error();
    return done;
  }
  std::span<const std::byte> of(Rank rank, std::size_t index) const override {
    const auto r = static_cast<std::size_t>(rank);
    const Array& array = arrays_[index];
    return {memory_->of(rank) + array.places[1 - array.next], sizes_[index][r]};
  }
  void abort(const Error& why) override { world_.abort(why); }
  std::size_t bytes() const override { return memory_->bytes(); }

 private:
  struct Array {
    std::size_t capacity = 0;
    std::array<std::size_t, 2> places{};  // offsets in each rank's block
    std::size_t next = 0;                 // the place that own() names
  };

  Result<void> hand_over(Deadline by) {
    TALLY_TRY(device_.wait(by));
    const auto ranks = static_cast<std::size_t>(world_.size());
    std::vector<std::uint64_t> all(own_sizes_.size() * ranks);
    TALLY_TRY(world_.run({.operation = Operation::kAllgather,
                          .input = own_sizes_.data(),
                          .output = all.data(),
                          .count = own_sizes_.size() * sizeof(std::uint64_t),
                          .type = DataType::kUInt8,
                          .by = by}));
    for (std::size_t k = 0; k < started_.size(); ++k) {
      Array& array = arrays_[started_[k]];
      std::vector<std::size_t> sizes;
      for (std::size_t r = 0; r < ranks; ++r) {
        sizes.push_back(all[r * started_.size() + k]);
        if (sizes.back() > array.capacity)
          return make_error(ErrorCode::kCorrupt, static_cast<Rank>(r),
                            "an encoded gradient of {} bytes, and there is room for {}",
                            sizes.back(), array.capacity);
      }
      sizes_[started_[k]] = std::move(sizes);
      array.next = 1 - array.next;
    }
    return {};
  }

  Communicator& world_;
  exchange::Device& device_;
  std::vector<Array> arrays_;
  std::size_t room_ = 0;  // of both places of all arrays
  std::unique_ptr<PeerMemory> memory_;
  std::vector<std::vector<std::size_t>> sizes_;  // by array and rank
  std::vector<std::size_t> started_;
  std::vector<std::uint64_t> own_sizes_;  // of the started arrays
  std::optional<Error> ended_;
};

}  // namespace

Result<std::unique_ptr<DeviceGather>> make_peer_gather(Communicator& world,
                                                       exchange::Device& device,
                                                       MemoryExport& between,
                                                       const std::vector<std::size_t>& capacities,
                                                       Deadline by) {
  auto gather = std::make_unique<PeerGather>(world, device, capacities);
  TALLY_TRY(gather->share(between, by));
  return std::unique_ptr<DeviceGather>(std::move(gather));
}

}  // namespace tally::cuda
