#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "exchange/device/device.h"
#include "tally/communicator.h"

namespace tally::exchange {

// Sums arrays of all ranks on their devices: the buckets of a model. Each rank gathers into own(),
// calls start(), and finds the sum of all ranks in total() after finish(). All ranks start the same
// buckets in the same order. Every rank gets the same bits. Threads: calls must not overlap.
class DeviceSum {
 public:
  // An array of `count` elements of `type`, float32 or float64.
  struct Array {
    DataType type = DataType::kFloat32;
    std::size_t count = 0;
  };
  virtual ~DeviceSum() = default;

  // Where this rank's part of array `index` lies on the device, and the sum; they may be the same,
  // and ranks that share a device may share the sum. own() may be written again once all ranks have
  // returned from finish().
  virtual std::byte* own(std::size_t index) const = 0;
  virtual std::byte* total(std::size_t index) const = 0;
  // Begins to sum the array as soon as the device has done the work that it has now.
  virtual Result<void> start(std::size_t index) = 0;
  // Returns when all started sums are complete on this rank's device. kPeerLost if a rank is lost,
  // kTimeout after the deadline, which ends the object: every later call returns the error.
  virtual Result<void> finish(Deadline by) = 0;
  // Ends the object on all ranks: those that wait in finish() return this error.
  virtual void abort(const Error& why) = 0;
  // Memory of the device that the object has allocated.
  virtual std::size_t bytes() const = 0;
};

// Makes the sums of the ranks of `world` over their devices. Called by all ranks; `world` and
// `device` must outlive the result.
using MakeDeviceSum = std::function<Result<std::unique_ptr<DeviceSum>>(
    Communicator& world, Device& device, const std::vector<DeviceSum::Array>& arrays, Deadline by)>;

// Sums through host memory and `world`: for ranks that have nothing faster in common.
MakeDeviceSum host_sum_maker();

}  // namespace tally::exchange
