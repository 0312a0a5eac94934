#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "codec/codec.h"
#include "codec/lowrank/powersgd.h"
#include "exchange/device/device_codec.h"
#include "exchange/device/device_low_rank.h"
#include "exchange/group/slice.h"
#include "plan/codec_spec.h"
#include "tally/checkpoint.h"
#include "tally/deadline.h"
#include "tally/error.h"
#include "tally/types.h"

namespace tally::exchange {

// Memory of a device or of its host, freed with its last owner.
struct DeviceMemory {
  std::byte* data = nullptr;  // on the device, if nothing else is said
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner;  // shared with tensors that lie in the memory
};

// Memory of this process, of any content.
inline DeviceMemory ordinary_memory(std::size_t bytes) {
  const std::shared_ptr<std::byte[]> owner(new std::byte[bytes]);
  return {.data = owner.get(), .bytes = bytes, .owner = owner};
}

// The arithmetic of an update, element by element: the loops of kernel::UpdateKernels.
enum class UpdateLoop : std::uint8_t {
  kSgd,
  kMomentum,
  kNesterov,
  kAdagrad,
  kAdam,
  kLambDirection,  // replaces the gradient, and leaves the values
  kLars,
  kFtrl,
};

// One parameter in its bucket, as the kernels of a step see it.
struct DevicePiece {
  std::uint64_t first = 0;  // element of the bucket
  std::uint64_t count = 0;
  // Where its gradient lies: an address on the device, of elements of DeviceBucket::type. Null: in
  // the bucket's `sums`.
  const std::byte* gradient = nullptr;
  std::uint32_t used = 1;    // 0: the update leaves values and state as they are
  std::uint32_t begins = 0;  // 1: the first update of ftrl, which sets its state from the values
  double pull = 0;           // for that: beta / rate, as optimizer::begin_state() uses it
  // The bytes of kernel::SgdFactors<C>, AdamFactors<C> and so on; C is double in float64 buckets
  // and float in others.
  alignas(8) std::array<std::byte, 96> factors{};
};

// A run of elements of one piece that one block of threads works on. Runs end at multiples of
// kBlock elements of the bucket, so that a run is what Slice calls a cell.
struct DeviceCell {
  std::uint64_t first = 0;  // element of the bucket
  std::uint32_t count = 0;  // at most kBlock
  std::uint32_t piece = 0;
};

// A bucket on the device. Null pointers mean that the bucket has no such array. C is double for
// float64 buckets, float for the others.
struct DeviceBucket {
  DataType type = DataType::kFloat32;  // of values and gradients
  std::byte* values = nullptr;         // type
  std::byte* master = nullptr;         // C: master copy of half types
  std::array<std::byte*, 2> state{};   // C: arrays of the optimizer
  std::byte* sums = nullptr;           // C: the gradient in one piece
  const DevicePiece* pieces = nullptr;
  const DeviceCell* cells = nullptr;
  std::size_t cell_count = 0;
};

// The change of a gradient before it is used: gradient * factor, then the clamp, then * scale;
// each product is rounded to C. A factor of 1 and a limit of 0 leave it as it is.
struct GradientChange {
  double factor = 1;
  double limit = 0;
  double scale = 1;
};

// A device with memory of its own, on which this rank's gradients are computed. Work runs in the
// order of the calls, after the work that the framework has given the device before, and before
// what it gives it afterwards; a call returns when the work is accepted. Errors of the device are
// kSystem; each later call returns them again. Threads: calls must not overlap.
class Device {
 public:
  virtual ~Device() = default;

  // "NVIDIA H200, GPU 0"
  virtual std::string name() const = 0;
  // The id of the hardware, which tells whether two ranks have the same device.
  virtual std::string id() const = 0;
  // Work follows that of the framework's `stream` (for CUDA a cudaStream_t) from now on.
  virtual void use_stream(void* stream) = 0;

  // Zeroed memory. kExhausted if the device has not enough.
  virtual Result<DeviceMemory> allocate(std::size_t bytes) = 0;
  // `from` is in ordinary memory, which the caller may use again at once. For large arrays.
  virtual Result<void> write(std::byte* to, std::span<const std::byte> from) = 0;
  // The same for the small tables of a step. Waits for earlier work only if the device has not yet
  // read the tables that were posted long before.
  virtual Result<void> post(std::byte* to, std::span<const std::byte> from) = 0;
  // Waits until the bytes are in ordinary memory.
  virtual Result<void> read(std::span<std::byte> to, const std::byte* from) = 0;
  // The same for several arrays, with one wait. Faster if `to` is in memory of allocate_on_host().
  struct Read {
    std::span<std::byte> to;
    const std::byte* from = nullptr;
  };
  virtual Result<void> read_all(std::span<const Read> reads) {
    for (const Read& each : reads) TALLY_TRY(read(each.to, each.from));
    return {};
  }
  // The same, but may return before the bytes have come; null: they have. The result keeps `owner`,
  // which has the arrays and their copies. Work that writes to the arrays must follow
  // finish_reads().
  virtual Result<std::shared_ptr<const checkpoint::PendingBytes>> begin_reads(
      std::span<const Read> reads, std::shared_ptr<const void> /*owner*/) {
    TALLY_TRY(read_all(reads));
    return std::shared_ptr<const checkpoint::PendingBytes>();
  }
  // Work from now on comes after the reads that have begun. Does not wait itself.
  virtual Result<void> finish_reads() { return {}; }
  // Ordinary memory, pinned where a device copies faster to that.
  virtual DeviceMemory allocate_on_host(std::size_t bytes) { return ordinary_memory(bytes); }
  // Between arrays of the device that do not overlap.
  virtual Result<void> copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  // Waits until the device has done all work so far. A device that has not done it by the deadline
  // has failed.
  virtual Result<void> wait(Deadline by) = 0;

  // sums = changed gradient, for all used pieces; 0 for others.
  virtual Result<void> gather(const DeviceBucket& bucket, const GradientChange& change) = 0;
  // Writes for each cell the sums of squares of its values (the master copy, if there is one) and
  // of its changed gradient, as kernel::square_sum() does: squares[k] is that of cells[k].
  // `squares` is on the device.
  virtual Result<void> squares(const DeviceBucket& bucket, const GradientChange& change,
                               Squares* squares) = 0;
  // One step over all used pieces, in place. kLambDirection writes the direction to `sums`. Half
  // types are updated in the master copy, and the values are its rounding.
  virtual Result<void> update(const DeviceBucket& bucket, UpdateLoop loop,
                              const GradientChange& change) = 0;
  // to[i] = from[0][i] + from[1][i] + ..., rounded after each sum. `type` is float32 or float64.
  virtual Result<void> sum(DataType type, std::span<const std::byte* const> from, std::byte* to,
                           std::size_t count) = 0;
  // The master copy becomes the values (bucket.type to float).
  virtual Result<void> widen(const DeviceBucket& bucket) = 0;

  // A codec for runs of at most `most` values. kInvalid for codecs that devices do not have, for
  // votes and for entropy stages; kExhausted if the device has no memory for the working arrays:
  // topk and threshold have a bit per value and a few megabytes, the others nothing. `damaged` is a
  // word of the device, which becomes 1 where decoded bytes are no encoding. It and the device must
  // outlive the codec.
  virtual Result<std::unique_ptr<DeviceCodec>> make_codec(const plan::CodecSpec& spec,
                                                          std::size_t most,
                                                          const codec::Shape& shape,
                                                          std::uint32_t* damaged) = 0;
  // PowerSGD for one matrix, without a residual if `feedback` is false. kExhausted if the device
  // has no memory for it. The device must outlive the result.
  virtual Result<std::unique_ptr<DeviceLowRank>> make_low_rank(
      const codec::PowerSgd::Options& options, bool feedback) = 0;
};

}  // namespace tally::exchange
