#include "server/storage/row_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "server/storage/piece.h"
#include "server/storage/table_spec.h"

namespace tally::server {
namespace {

constexpr int kFirstBits = 9;  // one page
constexpr int kMaxBits = 32;
constexpr std::size_t kLine = 64;
constexpr std::size_t kSpareBytes = std::size_t{1} << 20;
// The hardware prefetcher fetches the rest of a longer row.
constexpr std::size_t kPrefetchedBytes = 8 * kLine;

std::uint32_t tag_of(std::uint64_t key) {
  return static_cast<std::uint32_t>(hash_of_key(key) >> 32);
}

// A slot: the tag in the upper half, the row's number plus one in the lower; 0 is empty.
constexpr std::uint64_t slot_of(std::uint32_t tag, std::uint32_t row) {
  return (std::uint64_t{tag} << 32) | (std::uint64_t{row} + 1);
}
constexpr std::uint32_t tag_in(std::uint64_t slot) {
  return static_cast<std::uint32_t>(slot >> 32);
}
constexpr std::uint32_t row_in(std::uint64_t slot) { return static_cast<std::uint32_t>(slot) - 1; }

// Up to three quarters full, most probes stay in the first cache line.
constexpr std::size_t room_of_slots(std::size_t slots) { return slots / 4 * 3; }

}  // namespace

void write_initial_values(const RowShape& shape, std::uint64_t key, float* values) {
  Rng rng(hash_of_key(key) ^ mix(shape.seed));
  for (std::uint32_t d = 0; d < shape.dimension; ++d)
    values[d] = shape.scale == 0 ? 0.0F : static_cast<float>(shape.scale * (2 * rng.uniform() - 1));
}

RowTable::RowTable(const RowShape& shape, MemoryBudget& budget)
    : shape_(shape),
      record_bytes_(server::record_bytes(shape.dimension, shape.arrays)),
      stride_((record_bytes_ + 7) / 8 * 8),
      budget_(budget),
      index_(budget),
      rows_(budget) {}

void RowTable::find(std::span<const std::uint64_t> keys, Row* rows) const {
  TALLY_CHECK(keys.size() <= kBatch);
  if (size_ == 0) {
    std::fill_n(rows, keys.size(), Row(nullptr));
    return;
  }
  const std::uint64_t* const slots = this->slots();
  const std::size_t mask = (std::size_t{1} << bits_) - 1;
  std::uint32_t tags[kBatch];
  for (std::size_t i = 0; i < keys.size(); ++i) {
    tags[i] = tag_of(keys[i]);
    __builtin_prefetch(slots + home_of(tags[i]));
  }
  const std::size_t ahead = std::min(record_bytes_, kPrefetchedBytes);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::size_t at = home_of(tags[i]);
    while (slots[at] != 0 && tag_in(slots[at]) != tags[i]) at = (at + 1) & mask;
    rows[i] = slots[at] == 0 ? Row(nullptr) : this->at(row_in(slots[at]));
    if (slots[at] == 0) continue;
    for (std::size_t line = 0; line < ahead; line += kLine)
      __builtin_prefetch(rows[i].place() + line, 1);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (rows[i].found() && rows[i].key() != keys[i]) rows[i] = find_slowly(keys[i], tags[i]);
  }
}

Row RowTable::find_slowly(std::uint64_t key, std::uint32_t tag) const {
  const std::uint64_t* const slots = this->slots();
  const std::size_t mask = (std::size_t{1} << bits_) - 1;
  for (std::size_t i = home_of(tag); slots[i] != 0; i = (i + 1) & mask) {
    if (tag_in(slots[i]) == tag && at(row_in(slots[i])).key() == key) return at(row_in(slots[i]));
  }
  return Row(nullptr);
}

void RowTable::find_or_make(std::span<const std::uint64_t> keys, Row* rows) {
  find(keys, rows);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (rows[i].found()) continue;
    const std::uint32_t tag = tag_of(keys[i]);
    // An equal key earlier in the batch may have made the row.
    if (size_ != 0) rows[i] = find_slowly(keys[i], tag);
    if (!rows[i].found()) rows[i] = make(keys[i], tag);
  }
}

Row RowTable::make(std::uint64_t key, std::uint32_t tag) {
  TALLY_CHECK(size_ < room());
  const std::size_t mask = (std::size_t{1} << bits_) - 1;
  std::size_t slot = home_of(tag);
  while (slots()[slot] != 0) slot = (slot + 1) & mask;
  slots()[slot] = slot_of(tag, size_);
  const Row row = at(size_++);
  std::memcpy(row.place(), &key, sizeof key);
  row.set_steps(0);
  float* const values = row.values();
  write_initial_values(shape_, key, values);
  std::fill_n(values + shape_.dimension, std::size_t{shape_.dimension} * (shape_.arrays - 1U),
              shape_.state);
  return row;
}

std::size_t RowTable::missing(std::span<const std::uint64_t> keys) const {
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < keys.size(); begin += kBatch) {
    const auto batch = keys.subspan(begin, std::min(kBatch, keys.size() - begin));
    Row rows[kBatch] = {};
    find(batch, rows);
    for (std::size_t i = 0; i < batch.size(); ++i) count += rows[i].found() ? 0 : 1;
  }
  return count;
}

std::size_t RowTable::room() const {
  if (bits_ == 0) return 0;
  return std::min(room_of_slots(std::size_t{1} << bits_), rows_.bytes() / stride_);
}

bool RowTable::make_room(std::span<const std::uint64_t> keys) {
  if (size_ + keys.size() <= room()) return true;
  const std::size_t needed = size_ + missing(keys);
  // Reserves more than needed, so that the next calls need not count; where memory is short, only
  // what is needed.
  const std::size_t more =
      std::max<std::size_t>(size_ / 8, std::min(keys.size(), kSpareBytes / stride_));
  const std::size_t wish = needed + more;
  return grow_to(wish) || needed <= room() || grow_to(needed);
}

bool RowTable::is_affordable(std::size_t rows) const {
  if (budget_.limit() == 0) return true;
  const int bits = bits_for(rows);
  const std::size_t index = bits == bits_ ? 0 : (std::size_t{1} << bits) * sizeof(std::uint64_t);
  const std::size_t more = rows * stride_ > rows_.bytes() ? rows * stride_ - rows_.bytes() : 0;
  return budget_.used() + index + more <= budget_.limit();
}

// Takes nothing unless everything fits: a refused request must not leave a grown index that keeps
// smaller requests out.
bool RowTable::grow_to(std::size_t rows) {
  return is_affordable(rows) && grow_index(rows) && rows_.grow(rows * stride_);
}

int RowTable::bits_for(std::size_t rows) const {
  int bits = std::max(bits_, kFirstBits);
  while (room_of_slots(std::size_t{1} << bits) < rows) ++bits;
  return bits;
}

bool RowTable::grow_index(std::size_t rows) {
  const int bits = bits_for(rows);
  if (bits == bits_) return true;
  if (bits > kMaxBits) return false;
  GrowingMemory larger(budget_);
  if (!larger.grow((std::size_t{1} << bits) * sizeof(std::uint64_t))) return false;
  index_.swap(larger);
  const int old_bits = std::exchange(bits_, bits);
  const auto* const old = reinterpret_cast<const std::uint64_t*>(larger.data());
  const std::size_t mask = (std::size_t{1} << bits) - 1;
  for (std::size_t i = 0; old_bits != 0 && i < std::size_t{1} << old_bits; ++i) {
    if (old[i] == 0) continue;
    std::size_t slot = home_of(tag_in(old[i]));
    while (slots()[slot] != 0) slot = (slot + 1) & mask;
    slots()[slot] = old[i];
  }
  return true;
}

void RowTable::clear() {
  index_.release();
  rows_.release();
  bits_ = 0;
  size_ = 0;
}

}  // namespace tally::server
