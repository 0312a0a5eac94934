#include "data/keyed.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "data/permutation.h"

namespace tally::data {

// FNV-1a (Fowler, Noll, Vo); mix() then spreads its bits.
std::uint64_t text_hash(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3ULL;
  }
  return hash;
}

std::int64_t key_of(std::string_view field, std::string_view category) {
  return static_cast<std::int64_t>(mix(text_hash(field), text_hash(category)) >> 1);
}

int log2_bucket(double count) {
  if (count < 0) return -log2_bucket(-count) - (count > -1 ? 1 : 0);
  return count < 1 ? 0 : std::ilogb(count) + 1;
}

void KeyedRows::add(std::int64_t key, float value) {
  keys.push_back(key);
  values.push_back(value);
}

void KeyedRows::end_row(bool label) {
  starts.push_back(keys.size());
  labels.push_back(label ? 1 : 0);
}

std::uint64_t KeyedRows::longest() const {
  std::uint64_t most = 0;
  for (std::size_t row = 0; row < labels.size(); ++row)
    most = std::max(most, starts[row + 1] - starts[row]);
  return most;
}

KeyedRows chosen(const KeyedRows& rows, const std::vector<std::uint64_t>& indices) {
  KeyedRows result{.encoding = rows.encoding, .classes = rows.classes};
  for (const std::uint64_t row : indices) {
    for (std::uint64_t i = rows.starts[row]; i < rows.starts[row + 1]; ++i)
      result.add(rows.keys[i], rows.values[i]);
    result.end_row(rows.labels[row] != 0);
  }
  return result;
}

KeyedDataset::KeyedDataset(KeyedRows rows, std::uint64_t slots) : rows_(std::move(rows)) {
  TALLY_CHECK(slots >= rows_.longest());
  shape_.input = {2, static_cast<std::int64_t>(slots)};
  shape_.input_type = DataType::kInt64;
}

Preprocessing KeyedDataset::preprocessing() const {
  return {shape_, rows_.classes, rows_.encoding};
}

Result<void> KeyedDataset::read(std::uint64_t index, Rng& /*augment*/, std::span<std::byte> input,
                                std::span<std::byte> target) const {
  TALLY_CHECK(index < size() && input.size() == input_bytes(shape_) &&
              target.size() == target_bytes(shape_));
  const auto slots = static_cast<std::size_t>(shape_.input[1]);
  const std::size_t begin = rows_.starts[index];
  const std::size_t count = rows_.starts[index + 1] - begin;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const std::int64_t key = slot < count ? rows_.keys[begin + slot] : kNoKey;
    const double value = slot < count ? rows_.values[begin + slot] : 0.0;
    std::memcpy(&input[slot * sizeof key], &key, sizeof key);
    std::memcpy(&input[(slots + slot) * sizeof value], &value, sizeof value);
  }
  const std::int64_t label = rows_.labels[index];
  std::memcpy(target.data(), &label, sizeof label);
  return {};
}

}  // namespace tally::data
