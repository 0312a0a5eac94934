#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

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
};

struct ApplyOptions {
  double rate = 0.1;
  // Delay compensation: g + lambda * g * g * (value - backup), with lambda / sqrt(mean square +
  // 1e-7) if adaptive.
  double compensation = 0;
  bool adaptive = false;
  // The values that the gradient was computed at; empty: no compensation. Dense only.
  std::span<const std::byte> backup = {};
  // Updates so far. With a codec and update=bsp it numbers the encoding of the average and the
  // optimizer step, so that a worker can apply the same update.
  std::uint64_t version = 0;
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
  // With a codec and update=bsp: the encoded average of the last apply(), for workers that apply it
  // themselves. Empty if there is none.
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

// The factors that turn a sum of gradients into their weighted mean; all zero if all weights are.
// kInvalid for a negative or infinite weight.
Result<std::vector<double>> shares_of(std::span<const Gradient> gradients);

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
