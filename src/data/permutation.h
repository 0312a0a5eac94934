#pragma once
#include <array>
#include <cstdint>

namespace tally::data {

// One number out of several, each of whose bits matters.
std::uint64_t mix(std::uint64_t a, std::uint64_t b);

// The numbers below `size` in an order that `key` decides, computed one at a time: nothing is
// stored. Threads: safe.
class Permutation final {
 public:
  Permutation(std::uint64_t size, std::uint64_t key);
  // What stands at `index`, which is below the size.
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
