#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "exchange/device/device.h"
#include "exchange/exchange.h"
#include "exchange/memory/parameter_layout.h"
#include "tally/optimizer.h"

namespace tally::exchange {

// The entries of a bucket in the cells of kernels.
std::vector<DeviceCell> cells_of(const BucketLayout& bucket);

// The model of one rank in the memory of its device: values, optimizer state and master copies of
// half types, in one generation. It has all values. State and master copies may be those of a share
// only: the range of each bucket that this rank updates. Threads: calls must not overlap.
class DeviceModel final {
 public:
  // The model's parameters, and their places in buckets.
  struct Options {
    const std::vector<ParameterInfo>& parameters;
    const std::vector<OptimizerSpec>& optimizers;  // by group
    std::span<const std::size_t> order;            // of parameters in buckets
    std::size_t bucket_bytes = 0;
    Share share = {};  // of state and master copies; `first` is the bucket's number
  };
  // Values are 0, and optimizer state has its initial value. What `options` refers to must outlive
  // the result.
  static Result<std::unique_ptr<DeviceModel>> make(Device& device, const Options& options);

  const Layout& layout() const { return layout_; }
  const Share& share() const { return share_; }
  // The part of a bucket that belongs to a rank of the share.
  Range range_of(std::size_t b, int index) const;
  // Without pieces and sums. Kernels that use values or state are for the cells of owned() only:
  // those of this rank's range, of which owned_cell() is the first.
  const DeviceBucket& bucket(std::size_t b) const { return buckets_[b].device; }
  DeviceBucket owned(std::size_t b) const;
  std::size_t cells() const { return cells_; }
  std::size_t owned_cell(std::size_t b) const {
    return buckets_[b].first_cell + buckets_[b].owned_begin;
  }
  // The parameter of each cell, over all buckets.
  const std::vector<std::size_t>& parameter_of_cell() const { return parameter_of_cell_; }
  // On the device.
  std::span<std::byte> values(std::size_t parameter) const;
  // Keeps the memory of values alive.
  std::shared_ptr<const void> owner() const { return values_.owner; }

  // Copies the values of a parameter to the device, with the master copy.
  Result<void> write_values(std::size_t parameter, std::span<const std::byte> values);
  // The part of the model that has this range in each bucket, in ordinary memory. A model with a
  // share of the state has no state elsewhere.
  struct HostPart {
    DeviceMemory memory;                       // of the host
    std::vector<std::span<std::byte>> arrays;  // in `memory`
    std::vector<SliceState> states;            // in `arrays`
  };
  // Waits once for all arrays.
  Result<HostPart> read(const Share& share) const;
  // The same, but the device may still copy the bytes when it returns: until finish_reads() nothing
  // may be written to the model. Uses the memory of `former` again if it has the size, and nobody
  // else has it.
  struct PendingPart {
    HostPart part;
    std::shared_ptr<const checkpoint::PendingBytes> bytes;  // null: complete
  };
  Result<PendingPart> begin_read(const Share& share, HostPart former) const;
  // The same memory and list, without the contents of the device.
  HostPart room_for(const Share& share) const;
  // Copies the part to the device.
  Result<void> write(const HostPart& part);
  // The same for the values of one parameter, without the master copy.
  Result<void> replace_values(std::size_t parameter, std::span<const std::byte> values);

  std::size_t bytes() const;
  std::size_t state_bytes() const { return state_.bytes; }  // master copies included

 private:
  struct Bucket {
    DeviceBucket device;
    // State, then the master copy: where element 0 of the bucket would lie.
    std::vector<std::byte*> arrays;
    Range owned;
    std::size_t first_cell = 0;   // among those of all buckets
    std::size_t owned_begin = 0;  // the first of the owned cells, in the bucket
    std::size_t owned_cells = 0;
  };
  DeviceModel(Device& device, const Options& options);

  const OptimizerSpec& spec_of(std::size_t parameter) const;
  std::size_t arrays_of(const BucketLayout& bucket) const;
  Result<void> initialise_state();
  Range range_of(std::size_t b, const Share& share) const;
  std::size_t bytes_of(const Share& share) const;
  HostPart plan_part(const Share& share, DeviceMemory memory,
                     std::vector<Device::Read>& reads) const;

  Device& device_;
  const std::vector<ParameterInfo>& parameters_;
  const std::vector<OptimizerSpec>& optimizers_;
  const Layout layout_;
  const Share share_;
  std::vector<Bucket> buckets_;
  DeviceMemory values_;
  DeviceMemory state_;
  DeviceMemory cell_table_;
  std::size_t cells_ = 0;
  std::vector<std::size_t> parameter_of_cell_;
};

}  // namespace tally::exchange
