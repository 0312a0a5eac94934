#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/device/device.h"
#include "exchange/device/device_gather.h"
#include "exchange/device/device_model.h"
#include "exchange/device/device_sum.h"
#include "exchange/group/group_update.h"
#include "exchange/lane/codec_state.h"
#include "tally/communicator.h"

namespace tally::exchange {

// The buckets of a DeviceExchange whose gradients a codec carries, and the state of that codec, in
// the memory of the device. In every step
//
//   start(b) for each encoded bucket, in order, then finish(), then end_step()
//
// After an error the residuals may include the failed step. Threads: calls must not overlap.
class EncodedBuckets {
 public:
  // What the options refer to must outlive the object.
  struct Options {
    Device& device;
    const DeviceModel& model;
    const GroupUpdate::Options& update;  // device_fit()
  };
  virtual ~EncodedBuckets() = default;

  // Makes what depends on the other ranks. Called by all ranks; `world` must outlive its use.
  struct Ways {
    const MakeDeviceSum& make_sum;
    const MakeDeviceGather& make_gather;
  };
  virtual Result<void> connect(Communicator& world, const Ways& ways, Deadline by) = 0;
  // Drops what connect() has made, before the next one.
  virtual void disconnect() = 0;

  // Whether the codec carries the bucket in the step after `updates` updates. A bucket that is
  // encoded in step 0 is encoded in all steps. float64 is never encoded.
  virtual bool encodes(std::size_t bucket, std::uint64_t updates) const = 0;
  // Of an encoded bucket, in float32: this rank's mean gradient for start(), and the average of all
  // ranks after finish().
  virtual std::byte* gradient(std::size_t bucket) const = 0;

  struct Step {
    std::uint64_t number = 0;            // updates before this step
    std::span<const std::uint8_t> used;  // by parameter; others are left out
  };
  // Begins to send the gradient of an encoded bucket, which is not read if this rank has no
  // samples.
  virtual Result<void> start(std::size_t bucket, const Step& step, double samples) = 0;
  // Returns when this rank has the averages of all encoded buckets, and every other rank can make
  // its own without this one. `weights` are the samples of each rank.
  virtual Result<void> finish(const Step& step, std::span<const double> weights, Deadline by) = 0;
  // Other ranks have made the update of a step whose finish() has failed here, and this rank gets
  // their model: its codec state becomes that of a rank that has made it. Before end_step().
  virtual Result<void> catch_up(const Step& step) = 0;
  // Ends a step, also one that has failed.
  virtual void end_step() = 0;
  // Ends the object on all ranks: those that wait in finish() return this error.
  virtual void abort(const Error& why) = 0;

  // The codec state of this rank, in ordinary memory.
  struct HostState {
    std::vector<std::vector<float>> memory;
    std::vector<CodecState> states;  // in `memory`
  };
  // With the contents of the device where this rank saves them. State that a rank does not save and
  // that a checkpoint may lack is there, too.
  virtual Result<HostState> read(const Sender& self) const = 0;
  virtual Result<void> write(const HostState& state) = 0;
  // State that is the same on all ranks becomes that of `root`.
  virtual Result<void> spread_shared(Communicator& world, Rank root, Deadline by) = 0;

  virtual std::size_t bytes() const = 0;
};

}  // namespace tally::exchange
