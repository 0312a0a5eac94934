#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "server/storage/memory.h"

namespace tally::server {

// The layout and the initial values of rows.
struct RowShape {
  std::uint32_t dimension = 1;  // values of a row
  std::uint8_t arrays = 1;      // the values and the optimizer's state: each `dimension` float32
  // Values of a new row are uniform in +-scale, a function of seed and key; its state is `state`.
  std::uint64_t seed = 1;
  double scale = 0;
  float state = 0;
};

// Writes the values of a new row, `shape.dimension` numbers.
void write_initial_values(const RowShape& shape, std::uint64_t key, float* values);

// A pointer to a row: u64 key, u32 count of optimizer steps, then its arrays, as in the records of
// a SparsePiece.
class Row final {
 public:
  Row() = default;  // none
  explicit Row(std::byte* place) : place_(place) {}

  bool found() const { return place_ != nullptr; }
  std::byte* place() const { return place_; }
  std::uint64_t key() const { return load<std::uint64_t>(0); }
  std::uint32_t steps() const { return load<std::uint32_t>(kStepsAt); }
  void set_steps(std::uint32_t steps) const {
    std::memcpy(place_ + kStepsAt, &steps, sizeof steps);
  }
  float* values() const { return reinterpret_cast<float*>(place_ + kValuesAt); }

  static constexpr std::size_t kStepsAt = sizeof(std::uint64_t);
  static constexpr std::size_t kValuesAt = kStepsAt + sizeof(std::uint32_t);

 private:
  template <typename T>
  T load(std::size_t at) const {
    T value;
    std::memcpy(&value, place_ + at, sizeof value);
    return value;
  }

  std::byte* place_ = nullptr;
};

// A hash table from 64-bit keys to rows. Rows are stored in the order of their creation; an
// open-addressed index has 8 bytes per slot: 32 bits of the key's hash and the row's number. Slots
// are ordered by hash, so the index grows in one pass over itself without reading rows. Lookups
// come in batches, so that their cache misses overlap. Threads: only find() may overlap with
// itself.
class RowTable final {
 public:
  static constexpr std::size_t kBatch = 128;

  RowTable(const RowShape& shape, MemoryBudget& budget);

  // The rows of up to kBatch keys; not found() where missing. Valid until the table grows.
  void find(std::span<const std::uint64_t> keys, Row* rows) const;
  // Reserves memory for the missing rows of these keys; find_or_make() needs it. False, with
  // nothing changed, where there is none.
  bool make_room(std::span<const std::uint64_t> keys);
  void find_or_make(std::span<const std::uint64_t> keys, Row* rows);

  std::uint32_t size() const { return size_; }
  // In the order of creation.
  Row at(std::uint32_t row) const { return Row(rows_.data() + std::size_t{row} * stride_); }
  std::size_t missing(std::span<const std::uint64_t> keys) const;
  void clear();
  std::uint64_t bytes() const { return index_.bytes() + rows_.bytes(); }
  // Bytes of a row without padding.
  std::size_t record_bytes() const { return record_bytes_; }

 private:
  std::uint64_t* slots() const { return reinterpret_cast<std::uint64_t*>(index_.data()); }
  std::size_t home_of(std::uint32_t tag) const { return tag >> (32 - bits_); }
  std::size_t room() const;
  // Whether the budget has memory for `rows`, by estimate.
  bool is_affordable(std::size_t rows) const;
  bool grow_to(std::size_t rows);
  int bits_for(std::size_t rows) const;
  bool grow_index(std::size_t rows);
  // Slot by slot, for a key that shares its tag with another.
  Row find_slowly(std::uint64_t key, std::uint32_t tag) const;
  Row make(std::uint64_t key, std::uint32_t tag);

  const RowShape shape_;
  const std::size_t record_bytes_;
  const std::size_t stride_;
  MemoryBudget& budget_;
  GrowingMemory index_;
  GrowingMemory rows_;
  int bits_ = 0;  // of slot numbers
  std::uint32_t size_ = 0;
};

}  // namespace tally::server
