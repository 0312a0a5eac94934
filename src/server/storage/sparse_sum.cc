#include "server/storage/sparse_sum.h"

#include <algorithm>

#include "base/check.h"
#include "server/storage/key_hash.h"

namespace tally::server {

void SparseSum::begin(std::size_t most) {
  bits_ = 4;
  while (std::size_t{1} << bits_ < 2 * most) ++bits_;
  slots_.assign(std::size_t{1} << bits_, 0);
  keys_.clear();
  keys_.reserve(most);
  rows_.resize(std::max(rows_.size(), most * dimension_));
}

SparseSum::Place SparseSum::place_of(std::uint64_t key) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash_of_key(key) >> (64 - bits_);
  for (; slots_[at] != 0; at = (at + 1) & mask) {
    if (keys_[slots_[at] - 1] == key) return {.row = slots_[at] - 1U};
  }
  keys_.push_back(key);
  TALLY_CHECK(keys_.size() * dimension_ <= rows_.size());
  slots_[at] = static_cast<std::uint32_t>(keys_.size());
  return {.row = keys_.size() - 1, .is_new = true};
}

void SparseSum::add(std::span<const std::uint64_t> keys, const float* rows, float weight) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Place place = place_of(keys[i]);
    float* const sum = rows_.data() + place.row * dimension_;
    const float* const row = rows + i * dimension_;
    for (std::uint32_t d = 0; d < dimension_; ++d) {
      const float product = weight * row[d];
      sum[d] = place.is_new ? product : sum[d] + product;
    }
  }
}

}  // namespace tally::server
