#include "adapters/nccl/nccl_sum.h"

#include <utility>

#include "adapters/nccl/nccl_operation.h"
#include "adapters/nccl/nccl_queue.h"

namespace tally::nccl {
namespace {

using exchange::DeviceMemory;

class NcclSum final : public exchange::DeviceSum {
 public:
  NcclSum(std::unique_ptr<NcclQueue> queue, std::vector<Array> arrays)
      : queue_(std::move(queue)), arrays_(std::move(arrays)) {}

  Result<void> allocate(exchange::Device& device) {
    for (const Array& array : arrays_) {
      TALLY_TRY(DeviceMemory memory, device.allocate(array.count * size_of(array.type)));
      queue_->group().keep(memory.owner);
      memory_.push_back(std::move(memory));
    }
    return {};
  }

  std::byte* own(std::size_t index) const override { return memory_[index].data; }
  std::byte* total(std::size_t index) const override { return memory_[index].data; }

  Result<void> start(std::size_t index) override {
    started_ += arrays_[index].count;
    return queue_->push({.ready = {}, .issue = [this, index] {
                           NcclGroup& group = queue_->group();
                           std::byte* const data = memory_[index].data;
                           const Array& array = arrays_[index];
                           return group.nccl().all_reduce(data, data, array.count,
                                                          type_of(array.type), ncclSum,
                                                          group.comm(), group.stream());
                         }});
  }

  // Ranks compare the number of elements.
  Result<void> finish(Deadline by) override {
    const std::size_t count = std::exchange(started_, 0);
    if (count == 0) return {};
    return queue_->finish({.operation = Operation::kAllreduce,
                           .input = memory_.front().data,
                           .output = memory_.front().data,
                           .count = count,
                           .type = arrays_.front().type,
                           .by = by});
  }

  void abort(const Error& why) override { queue_->abort(why); }

  std::size_t bytes() const override {
    std::size_t bytes = 0;
    for (const DeviceMemory& memory : memory_) bytes += memory.bytes;
    return bytes;
  }

 private:
  std::vector<DeviceMemory> memory_;
  const std::unique_ptr<NcclQueue> queue_;
  const std::vector<Array> arrays_;
  std::size_t started_ = 0;  // elements since the last finish()
};

}  // namespace

Result<std::unique_ptr<exchange::DeviceSum>> nccl_sum(
    Communicator& world, cuda::CudaDevice& device,
    const std::vector<exchange::DeviceSum::Array>& arrays, Deadline by) {
  TALLY_TRY(auto queue, NcclQueue::make(world, device, by));
  auto sum = std::make_unique<NcclSum>(std::move(queue), arrays);
  TALLY_TRY(sum->allocate(device));
  return std::unique_ptr<exchange::DeviceSum>(std::move(sum));
}

}  // namespace tally::nccl
