#include <optional>
#include <utility>

#include "base/errors.h"
#include "exchange/device/device_gather.h"

namespace tally::exchange {
namespace {

constexpr std::size_t kSlotAlignment = 256;

std::size_t slot_bytes(std::size_t bytes) {
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

// An array has a slot for each rank; a rank's own slot is own(). finish() first exchanges the sizes
// of all started arrays, and then the bytes of one array after the other.
class HostGather final : public DeviceGather {
 public:
  HostGather(Communicator& world, Device& device, std::vector<std::size_t> capacities)
      : world_(world),
        device_(device),
        capacities_(std::move(capacities)),
        ranks_(static_cast<std::size_t>(world.size())),
        own_(static_cast<std::size_t>(world.rank())) {}

  Result<void> allocate() {
    for (const std::size_t capacity : capacities_) {
      TALLY_TRY(DeviceMemory memory, device_.allocate(slot_bytes(capacity) * ranks_));
      memory_.push_back(std::move(memory));
      sizes_.emplace_back(ranks_);
    }
    return {};
  }

  std::byte* own(std::size_t index) const override { return slot(index, own_); }
  Result<void> start(std::size_t index, std::size_t bytes) override {
    if (failure_) return *failure_;
    if (bytes > capacities_[index])
      return invalid("{} bytes in an array of {}", bytes, capacities_[index]);
    sizes_[index][own_] = bytes;
    started_.push_back(index);
    return {};
  }
  Result<void> finish(Deadline by) override {
    if (failure_) return *failure_;
    const auto done = ranks_ == 1 ? Result<void>() : exchange(by);
    started_.clear();
    if (!done) failure_ = done.error();
    return done;
  }
  std::span<const std::byte> of(Rank rank, std::size_t index) const override {
    const auto r = static_cast<std::size_t>(rank);
    return {slot(index, r), sizes_[index][r]};
  }
  void abort(const Error& why) override { world_.abort(why); }
  std::size_t bytes() const override {
    std::size_t bytes = 0;
    for (const DeviceMemory& memory : memory_) bytes += memory.bytes;
    return bytes;
  }

 private:
  std::byte* slot(std::size_t index, std::size_t rank) const {
    return memory_[index].data + rank * slot_bytes(capacities_[index]);
  }

  Result<void> exchange(Deadline by) {
    std::vector<std::int64_t> own;
    for (const std::size_t index : started_)
      own.push_back(static_cast<std::int64_t>(sizes_[index][own_]));
    if (own.empty()) return {};
    std::vector<std::int64_t> all(own.size() * ranks_);
    TALLY_TRY(world_.allgather(std::span<const std::int64_t>(own), std::span(all), {.by = by}));
    for (std::size_t i = 0; i < started_.size(); ++i) {
      const std::size_t index = started_[i];
      for (std::size_t r = 0; r < ranks_; ++r) {
        const std::int64_t told = all[r * own.size() + i];
        if (told < 0 || static_cast<std::uint64_t>(told) > capacities_[index])
          return make_error(ErrorCode::kCorrupt, static_cast<Rank>(r),
                            "an array of {} bytes, limit {}", told, capacities_[index]);
        sizes_[index][r] = static_cast<std::size_t>(told);
      }
      TALLY_TRY(exchange_array(index, by));
    }
    return {};
  }

  Result<void> exchange_array(std::size_t index, Deadline by) {
    const std::vector<std::size_t>& sizes = sizes_[index];
    std::size_t total = 0;
    for (const std::size_t size : sizes) total += size;
    out_.resize(sizes[own_]);
    in_.resize(total);
    TALLY_TRY(device_.read(out_, own(index)));
    TALLY_TRY(world_.run({.operation = Operation::kAllgather,
                          .input = out_.data(),
                          .output = in_.data(),
                          .count = out_.size(),
                          .type = DataType::kUInt8,
                          .counts = sizes,
                          .by = by}));
    std::span<const std::byte> rest = in_;
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (r != own_) TALLY_TRY(device_.write(slot(index, r), rest.first(sizes[r])));
      rest = rest.subspan(sizes[r]);
    }
    return {};
  }

  Communicator& world_;
  Device& device_;
  const std::vector<std::size_t> capacities_;
  const std::size_t ranks_;
  const std::size_t own_;
  std::vector<DeviceMemory> memory_;             // by array
  std::vector<std::vector<std::size_t>> sizes_;  // by array, by rank
  std::vector<std::size_t> started_;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
  std::optional<Error> failure_;
};

}  // namespace

MakeDeviceGather host_gather_maker() {
  return [](Communicator& world, Device& device, const std::vector<std::size_t>& capacities,
            Deadline /*by*/) -> Result<std::unique_ptr<DeviceGather>> {
    auto gather = std::make_unique<HostGather>(world, device, capacities);
    TALLY_TRY(gather->allocate());
    return std::unique_ptr<DeviceGather>(std::move(gather));
  };
}

}  // namespace tally::exchange
