#include <optional>
#include <utility>

#include "exchange/device/device_sum.h"

namespace tally::exchange {
namespace {

class HostSum final : public DeviceSum {
 public:
  HostSum(Communicator& world, Device& device, std::vector<Array> arrays)
      : world_(world), device_(device), arrays_(std::move(arrays)) {}

  Result<void> allocate() {
    for (const Array& array : arrays_) {
      TALLY_TRY(DeviceMemory memory, device_.allocate(array.count * size_of(array.type)));
      memory_.push_back(std::move(memory));
    }
    return {};
  }

  std::byte* own(std::size_t index) const override { return memory_[index].data; }
  std::byte* total(std::size_t index) const override { return memory_[index].data; }
  // A rank that is alone has the sum.
  Result<void> start(std::size_t index) override {
    if (failure_) return *failure_;
    if (world_.size() > 1) started_.push_back(index);
    return {};
  }
  Result<void> finish(Deadline by) override {
    if (failure_) return *failure_;
    const Result<void> done = sum_started(by);
    if (!done) failure_ = done.error();
    return done;
  }
  void abort(const Error& why) override { world_.abort(why); }
  std::size_t bytes() const override {
    std::size_t bytes = 0;
    for (const DeviceMemory& memory : memory_) bytes += memory.bytes;
    return bytes;
  }

 private:
  Result<void> sum_started(Deadline by) {
    for (const std::size_t index : std::exchange(started_, {})) {
      const Array& array = arrays_[index];
      host_.resize(memory_[index].bytes);
      TALLY_TRY(device_.read(host_, memory_[index].data));
      TALLY_TRY(world_.run({.operation = Operation::kAllreduce,
                            .input = host_.data(),
                            .output = host_.data(),
                            .count = array.count,
                            .type = array.type,
                            .by = by}));
      TALLY_TRY(device_.write(memory_[index].data, host_));
    }
    return {};
  }

  Communicator& world_;
  Device& device_;
  const std::vector<Array> arrays_;
  std::vector<DeviceMemory> memory_;
  std::vector<std::size_t> started_;
  std::vector<std::byte> host_;
  std::optional<Error> failure_;
};

}  // namespace

MakeDeviceSum host_sum_maker() {
  return [](Communicator& world, Device& device, const std::vector<DeviceSum::Array>& arrays,
            Deadline /*by*/) -> Result<std::unique_ptr<DeviceSum>> {
    auto sum = std::make_unique<HostSum>(world, device, arrays);
    TALLY_TRY(sum->allocate());
    return std::unique_ptr<DeviceSum>(std::move(sum));
  };
}

}  // namespace tally::exchange
