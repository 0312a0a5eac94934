#pragma once
#include <array>
#include <cstdint>

namespace tally::data {

// Mixes two numbers into one; every input bit affects the result.
std::uint64_t mix(std::uint64_t a, std::uint64_t b);

// A permutation of the numbers below `size`, determined by `key`. It computes one value at a time
// and stores no table. Threads: safe.
class Permutation final {
 public:
  Permutation(std::uint64_t size, std::uint64_t key);
  // The value at position `index`, which must be below `size`.
  std::uint64_t operator()(std::uint64_t index) const;

 private:
  static constexpr int kRounds = 8;
  std::uint64_t shuffle_once(std::uint64_t value) const;

  std::uint64_t size_;
  int low_bits_;
  int high_bits_;
  std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace tally::data
