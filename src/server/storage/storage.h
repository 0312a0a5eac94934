#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "optimizer/update_rule.h"
#include "server/storage/memory.h"
#include "server/storage/table_spec.h"
#include "tally/error.h"
#include "tally/optimizer.h"
#include "tally/server.h"

namespace tally::server {

// A gradient for one part. Dense: one value per element. Sparse: the rows of `keys`, each key
// once.
struct Gradient {
  std::span<const std::uint64_t> keys;
  std::span<const std::byte> values;
  double weight = 1;
  double factor = 1;   // of the learning rate, for this gradient
  bool plain = false;  // with a codec: it was not encoded (PushKind::kPlainGradient)
  // The values that the gradient was computed at, for delay compensation; empty: none. Dense only.
  std::span<const std::byte> backup = {};
};

struct ApplyOptions {
  double rate = 0.1;
  std::optional<OptimizerSpec> optimizer = {};  // for this update, in place of the table's
  // Delay compensation: g + lambda * g * g * (value - backup), with lambda / sqrt(mean square +
  // 1e-7) if adaptive.
  double compensation = 0;
  bool adaptive = false;
  // Updates so far. With a codec whose averages go back to the workers it numbers the encoding of
  // the average and the optimizer step, so that a worker can apply the same update.
  std::uint64_t version = 0;
};

// Sums of squares over the elements of a part.
struct Squares {
  double values = 0;
  double gradient = 0;  // of the gathered mean, or of the direction of lamb that it leads to
};

// The second half of an update whose mean is gathered.
struct GatheredOptions {
  double factor = 1;            // of the mean: clipping by norm
  optimizer::Norms norms = {};  // of the whole table, for lamb and lars
};

// The values of one part and their optimizer state. Byte spans may have any alignment. Threads:
// calls must not overlap, except add_atomically() with itself.
class Storage {
 public:
  virtual ~Storage() = default;

  // One optimizer step with the weighted mean of the gradients, summed in this order. Sparse: steps
  // the rows that any gradient has; a missing row counts as a zero gradient. Changes nothing where
  // all weights are 0. kExhausted, with nothing changed, where new rows exceed the memory limit;
  // kCorrupt if the bytes are not of this part; kInvalid for a negative or infinite weight. With a
  // codec the gradients are decoded, and empty where the weight is 0.
  virtual Result<void> apply(std::span<const Gradient> gradients, const ApplyOptions& options) = 0;
  // apply() in two halves, for updates that need norms over all parts. gather() makes the mean of
  // the gradients and keeps it beside the values; nothing else changes. measure() may be called for
  // several factors. apply_gathered() makes the step, and forget_gathered() gives the mean up.
  virtual Result<void> gather(std::span<const Gradient> gradients, const ApplyOptions& options) = 0;
  virtual Squares measure(double factor, bool direction) const = 0;
  virtual Result<void> apply_gathered(const GatheredOptions& options) = 0;
  virtual void forget_gathered() = 0;
  // With a codec whose averages go back to the workers: the encoded average of the last update, for
  // workers that apply it themselves. Empty if there is none.
  virtual std::span<const std::byte> average() const { return {}; }
  virtual Result<void> add(const Gradient& gradient) = 0;     // value += gradient
  virtual Result<void> assign(const Gradient& gradient) = 0;  // value = gradient; resets the state
  // value += factor * gradient by one atomic addition per element; may overlap with itself. Sparse:
  // kInvalid, with nothing changed, where a row is missing; prepare_rows() makes rows.
  virtual Result<void> add_atomically(const Gradient& gradient, double factor) = 0;
  virtual Result<void> prepare_rows(std::span<const std::uint64_t> keys) = 0;

  // Dense: all values; sparse: the rows of `keys`; read() makes missing rows.
  virtual std::size_t value_bytes(std::size_t keys) const = 0;
  virtual Result<void> read(std::span<const std::uint64_t> keys, std::span<std::byte> out) = 0;
  // The same, into memory that only another process reads.
  virtual Result<void> read_for_others(std::span<const std::uint64_t> keys,
                                       std::span<std::byte> out) {
    return read(keys, out);
  }

  // Dense only: one array of the optimizer state; the one after the last is the residual of the
  // averages' codec, if there is one.
  virtual Result<void> read_state(int array, std::span<std::byte> out) const = 0;
  virtual Result<void> write_state(int array, std::span<const std::byte> in) = 0;
  // Dense: sets the number of optimizer steps, which bias corrections depend on. Sparse: no effect,
  // since each row counts its own.
  virtual void set_steps(std::uint64_t steps) = 0;

  // The part for copies and snapshots, in pieces of at most `max_bytes`. Sparse: the rows of `only`
  // unless `everything`. take() of all pieces in a storage of the same spec gives the same bits; it
  // is kCorrupt for other bytes.
  virtual std::vector<std::vector<std::byte>> pieces(std::span<const std::uint64_t> only,
                                                     bool everything,
                                                     std::size_t max_bytes) const = 0;
  virtual Result<void> take(std::span<const std::byte> piece) = 0;
  virtual void clear() = 0;

  virtual std::uint64_t elements() const = 0;  // dense: elements; sparse: rows
  virtual std::uint64_t bytes() const = 0;
};

// kInvalid if the spec does not pass check() or has no such part, kExhausted if its memory is
// beyond the budget's limit. The budget outlives the storage.
Result<std::unique_ptr<Storage>> make_storage(const TableSpec& spec, std::uint32_t part,
                                              MemoryBudget& budget);
// The two kinds of storage, for a spec that has passed check().
Result<std::unique_ptr<Storage>> make_dense_storage(const TableSpec& spec, std::uint32_t part,
                                                    MemoryBudget& budget);
std::unique_ptr<Storage> make_sparse_storage(const TableSpec& spec, std::uint32_t part,
                                             MemoryBudget& budget);

// How a mean is made of gradients, and the factor of the learning rate for it: each gradient counts
// with its weight times its factor, and the mean of the factors by weight is that of the rate.
struct MeanFactors {
  std::vector<double> shares;  // by gradient; all zero if all weights are
  double rate = 1;
};
// kInvalid for a negative or infinite weight.
Result<MeanFactors> mean_factors(std::span<const Gradient> gradients);

// Bytes as values: in place where the alignment allows it, otherwise in `copy`.
template <typename T>
std::span<const T> aligned(std::span<const std::byte> bytes, std::vector<T>& copy) {
  const std::size_t count = bytes.size() / sizeof(T);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) == 0)
    return {reinterpret_cast<const T*>(bytes.data()), count};
  copy.resize(count);
  std::memcpy(copy.data(), bytes.data(), count * sizeof(T));
  return copy;
}

}  // namespace tally::server
