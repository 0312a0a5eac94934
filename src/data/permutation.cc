// A keyed permutation of the numbers below size_, without a table.
//
// A Feistel network (shuffle_once()) permutes all numbers of low_bits_ + high_bits_ bits, which are
// fewer than 2 * size_ numbers. operator() applies it until the value is below size_ (cycle
// walking: Black and Rogaway 2002), fewer than two times on average.
#include "data/permutation.h"

#include <bit>

#include "base/check.h"
#include "base/rng.h"

namespace tally::data {
namespace {

constexpr std::uint64_t mask(int bits) { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return Rng(Rng(a).next() ^ b).next(); }

Permutation::Permutation(std::uint64_t size, std::uint64_t key) : size_(size) {
  const int bits = size > 1 ? std::bit_width(size - 1) : 0;
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  Rng rng(key);
  for (std::uint64_t& round_key : keys_) round_key = rng.next();
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  TALLY_CHECK(index < size_);
  std::uint64_t value = index;
  do {
    value = shuffle_once(value);
  } while (value >= size_);
  return value;
}

// Each round XORs one half with a function of the other half, which is invertible for any function,
// and then swaps the halves. If the halves have different widths, an even number of rounds restores
// their positions.
std::uint64_t Permutation::shuffle_once(std::uint64_t value) const {
  int left_bits = high_bits_;
  int right_bits = low_bits_;
  std::uint64_t left = value >> low_bits_;
  std::uint64_t right = value & mask(low_bits_);
  for (const std::uint64_t key : keys_) {
    const std::uint64_t changed = (left ^ Rng(key ^ right).next()) & mask(left_bits);
    left = right;
    right = changed;
    const int bits = left_bits;
    left_bits = right_bits;
    right_bits = bits;
  }
  return left << low_bits_ | right;
}

}  // namespace tally::data
