#include <algorithm>
#include <cstdint>
#include <utility>

#include "adapters/nccl/nccl_queue.h"
#include "adapters/nccl/nccl_sum.h"
#include "base/check.h"
#include "base/errors.h"

// An array has a place for this rank's bytes, and beside it room for those of all ranks. If all
// ranks need the same room after rounding up, the parts lie one after the other, as an all-gather
// of NCCL writes them; else each part begins at a multiple of the capacity.
namespace tally::nccl {
namespace {

using exchange::DeviceMemory;

constexpr std::size_t kAlignment = 256;

std::size_t rounded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The room for one rank's bytes of an array.
std::size_t room_for(std::size_t capacity) { return rounded(std::max(capacity, std::size_t{1})); }

class NcclGather final : public exchange::DeviceGather {
 public:
  NcclGather(std::unique_ptr<NcclQueue> queue, const std::vector<std::size_t>& capacities)
      : queue_(std::move(queue)) {
    for (const std::size_t capacity : capacities) {
      Array& array = arrays_.emplace_back();
      array.capacity = capacity;
      array.sizes.resize(ranks());
    }
  }

  Result<void> allocate(exchange::Device& device) {
    for (Array& array : arrays_) {
      TALLY_TRY(array.memory, device.allocate(room_for(array.capacity) * (1 + ranks())));
      queue_->group().keep(array.memory.owner);
    }
    return {};
  }

  std::byte* own(std::size_t index) const override { return arrays_[index].memory.data; }

  Result<void> start(std::size_t index, std::size_t bytes) override {
    Array& array = arrays_[index];
    TALLY_CHECK(bytes <= array.capacity);
    array.own_size = static_cast<std::int64_t>(bytes);
    // The queue's thread of host() exchanges the sizes.
    array.exchange = queue_->group().host().start({.operation = Operation::kAllgather,
                                                   .input = &array.own_size,
                                                   .output = array.sizes.data(),
                                                   .count = 1,
                                                   .type = DataType::kInt64,
                                                   .by = Deadline::never()});
    started_bytes_ += room_for(array.capacity);
    return queue_->push({.ready = [this, index] { return sizes_are_known(index); },
                         .issue = [this, index] { return issue(index); }});
  }

  // Ranks compare the room of all arrays together, because their encodings differ in size. Nothing
  // is read or written at these addresses, which must not overlap.
  Result<void> finish(Deadline by) override {
    const std::size_t bytes = std::exchange(started_bytes_, 0);
    if (bytes == 0) return {};
    return queue_->finish({.operation = Operation::kAllgather,
                           .input = own(0),
                           .output = own(0) + bytes,
                           .count = bytes,
                           .type = DataType::kUInt8,
                           .by = by});
  }

  std::span<const std::byte> of(Rank rank, std::size_t index) const override {
    const Array& array = arrays_[index];
    const auto r = static_cast<std::size_t>(rank);
    return {gathered(array) + r * array.stride, static_cast<std::size_t>(array.sizes[r])};
  }

  void abort(const Error& why) override { queue_->abort(why); }

  std::size_t bytes() const override {
    std::size_t bytes = 0;
    for (const Array& array : arrays_) bytes += array.memory.bytes;
    return bytes;
  }

 private:
  struct Array {
    std::size_t capacity = 0;
    DeviceMemory memory;
    std::int64_t own_size = 0;
    std::vector<std::int64_t> sizes;  // by rank
    std::size_t stride = 0;           // between the parts of ranks
    std::optional<Handle> exchange;   // of the sizes
  };

  std::size_t ranks() const { return static_cast<std::size_t>(queue_->group().size()); }
  static std::byte* gathered(const Array& array) {
    return array.memory.data + room_for(array.capacity);
  }

  Result<bool> sizes_are_known(std::size_t index) {
    Array& array = arrays_[index];
    if (!array.exchange->poll()) return false;
    TALLY_TRY(array.exchange->wait());
    for (std::size_t rank = 0; rank < ranks(); ++rank)
      if (array.sizes[rank] < 0 || static_cast<std::size_t>(array.sizes[rank]) > array.capacity)
        return make_error(ErrorCode::kCorrupt, static_cast<Rank>(rank),
                          "rank {} has an encoding of {} bytes where {} are possible", rank,
                          array.sizes[rank], array.capacity);
    return true;
  }

  ncclResult_t issue(std::size_t index) {
    NcclGroup& group = queue_->group();
    const Nccl& nccl = group.nccl();
    Array& array = arrays_[index];
    const auto room = [&array](std::size_t rank) {
      return rounded(static_cast<std::size_t>(array.sizes[rank]));
    };
    bool is_equal = true;
    for (std::size_t rank = 1; rank < ranks(); ++rank) is_equal = is_equal && room(rank) == room(0);
    array.stride = is_equal ? room(0) : room_for(array.capacity);
    if (is_equal && room(0) == 0) return ncclSuccess;
    if (is_equal)
      return nccl.all_gather(own(index), gathered(array), room(0), ncclUint8, group.comm(),
                             group.stream());
    ncclResult_t first = nccl.group_start();
    if (first != ncclSuccess) return first;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (array.sizes[rank] == 0) continue;
      const ncclResult_t code =
          nccl.broadcast(own(index), gathered(array) + rank * array.stride,
                         static_cast<std::size_t>(array.sizes[rank]), ncclUint8,
                         static_cast<int>(rank), group.comm(), group.stream());
      if (first == ncclSuccess && code != ncclInProgress) first = code;
    }
    const ncclResult_t end = nccl.group_end();
    return first != ncclSuccess ? first : end;
  }

  std::vector<Array> arrays_;  // host() uses them until the queue is gone
  const std::unique_ptr<NcclQueue> queue_;
  std::size_t started_bytes_ = 0;  // the room of the arrays since the last finish()
};

}  // namespace

Result<std::unique_ptr<exchange::DeviceGather>> nccl_gather(
    Communicator& world, cuda::CudaDevice& device, const std::vector<std::size_t>& capacities,
    Deadline by) {
  TALLY_TRY(auto queue, NcclQueue::make(world, device, by));
  auto gather = std::make_unique<NcclGather>(std::move(queue), capacities);
  TALLY_TRY(gather->allocate(device));
  return std::unique_ptr<exchange::DeviceGather>(std::move(gather));
}

}  // namespace tally::nccl
