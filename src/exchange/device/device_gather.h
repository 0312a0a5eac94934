#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exchange/device/device.h"
#include "tally/communicator.h"

namespace tally::exchange {

// Sends an array of bytes of every rank, such as its encoded gradients or new values, to all ranks,
// between their devices. All ranks start the same arrays in the same order, each with its own
// number of bytes. Threads: calls must not overlap.
class DeviceGather {
 public:
  virtual ~DeviceGather() = default;

  // Where this rank's bytes of array `index` lie on the device: the capacity of the array, aligned
  // to 256 bytes. They may be written again once all ranks have returned from finish().
  virtual std::byte* own(std::size_t index) const = 0;
  // Begins to send the first `bytes` of own(index) as soon as the device has done the work that it
  // has now.
  virtual Result<void> start(std::size_t index, std::size_t bytes) = 0;
  // Returns when later work of this rank's device can read all started arrays of all ranks.
  // kPeerLost if a rank is lost, kTimeout after the deadline, which ends the object: every later
  // call returns the error.
  virtual Result<void> finish(Deadline by) = 0;
  // The bytes of a rank on this rank's device, aligned to 256 bytes: from finish() until the array
  // is started again. Sizes come from peers and are at most the capacity.
  virtual std::span<const std::byte> of(Rank rank, std::size_t index) const = 0;
  // Ends the object on all ranks: those that wait in finish() return this error.
  virtual void abort(const Error& why) = 0;
  // Memory of the device that the object has allocated.
  virtual std::size_t bytes() const = 0;
};

// Called by all ranks of `world` with the same capacities, by array; `world` and `device` must
// outlive the result.
using MakeDeviceGather = std::function<Result<std::unique_ptr<DeviceGather>>(
    Communicator& world, Device& device, const std::vector<std::size_t>& capacities, Deadline by)>;

// Gathers through host memory and `world`: for ranks that have nothing faster in common. A rank
// that is alone reads its own bytes where they are.
MakeDeviceGather host_gather_maker();

}  // namespace tally::exchange
