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

// A gradient for one part: of a dense part its elements; of a sparse one `keys`, each once, and
// their rows.
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
  // The values that the gradient was computed at; empty: nothing is compensated. Dense only.
  std::span<const std::byte> backup = {};
  // Updates that the part has had. Looked at with a codec and update=bsp: the way back's encoding
  // has a number of its own for each, and the optimizer's step is this one's next, so that whoever
  // knows the version can follow.
  std::uint64_t version = 0;
};

// The numbers of one part, their optimizer's state, and nothing else. Bytes of values may lie at
// any address; keys of one gradient are each there once. Threads: calls must not overlap, but for
// add_atomically() with itself.
class Storage {
 public:
  virtual ~Storage() = default;

  // One optimizer step with the mean of the gradients by weight, summed in this order. Of sparse
  // parts the rows that any of them has; a row's gradient counts as zero where one does not have
  // it. Where all weights are 0 nothing changes. kExhausted, with nothing changed, where new rows
  // would not fit into the memory limit; kCorrupt if the bytes are not of this part; kInvalid for a
  // weight that is negative or not finite. With a codec: decoded gradients, none where the weight
  // is 0.
  virtual Result<void> apply(std::span<const Gradient> gradients, const ApplyOptions& options) = 0;
  // With a codec and update=bsp: what the last apply() has changed the values by, as bytes for
  // whoever follows. Empty before the first, and where that changed nothing.
  virtual std::span<const std::byte> average() const { return {}; }
  virtual Result<void> add(const Gradient& gradient) = 0;     // value += gradient
  virtual Result<void> assign(const Gradient& gradient) = 0;  // value = gradient; state as at first
  // value += factor * gradient by one atomic addition per element; may overlap with itself. Of
  // sparse parts only rows that are there: prepare_rows() first.
  virtual Result<void> add_atomically(const Gradient& gradient, double factor) = 0;
  virtual Result<void> prepare_rows(std::span<const std::uint64_t> keys) = 0;

  // Dense: all values; sparse: the rows of `keys`, made where they are not there.
  virtual std::size_t value_bytes(std::size_t keys) const = 0;
  virtual Result<void> read(std::span<const std::uint64_t> keys, std::span<std::byte> out) = 0;
  // The same, into memory that another process reads: this one does not look at `out` again.
  virtual Result<void> read_for_others(std::span<const std::uint64_t> keys,
                                       std::span<std::byte> out) {
    return read(keys, out);
  }

  // Dense only: one of the optimizer's arrays; behind them what the way back has left out, where
  // that is kept.
  virtual Result<void> read_state(int array, std::span<std::byte> out) const = 0;
  virtual Result<void> write_state(int array, std::span<const std::byte> in) = 0;
  // Dense only: optimizer steps so far, which bias corrections depend on. To be set with
  // kSetVersion; rows of sparse parts count their own, and this does nothing.
  virtual void set_steps(std::uint64_t steps) = 0;

  // Everything, for copies and snapshots, in pieces of at most `max_bytes`; `only` (sparse): the
  // rows of these keys. Taking the pieces in any storage of the same spec gives the same bits.
  // take() is kCorrupt for bytes that are no piece.
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

// What each gradient is multiplied with, so that their sum is the mean by weight; all zero if no
// gradient has a weight. kInvalid for a weight that is negative or not finite.
Result<std::vector<double>> shares_of(std::span<const Gradient> gradients);

// Bytes as values: in place where they lie as a T must, otherwise copied. Borrows the bytes.
template <typename T>
class AlignedValues final {
 public:
  explicit AlignedValues(std::span<const std::byte> bytes) : count_(bytes.size() / sizeof(T)) {
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) == 0) {
      data_ = reinterpret_cast<const T*>(bytes.data());
      return;
    }
    copy_.resize(count_);
    std::memcpy(copy_.data(), bytes.data(), count_ * sizeof(T));
  }

  const T* data() const { return copy_.empty() ? data_ : copy_.data(); }
  std::size_t size() const { return count_; }

 private:
  std::size_t count_;
  const T* data_ = nullptr;
  std::vector<T> copy_;
};

}  // namespace tally::server
