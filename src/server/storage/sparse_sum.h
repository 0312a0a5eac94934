#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tally::server {

// The weighted sum of several sets of rows, over all keys that any of them has. Memory is kept for
// the next. Threads: calls must not overlap.
class SparseSum final {
 public:
  explicit SparseSum(std::uint32_t dimension) : dimension_(dimension) {}

  // Empty, with room for the sum of `most` keys.
  void begin(std::size_t most);
  // Each product and each sum is rounded to float, in the order of the calls.
  void add(std::span<const std::uint64_t> keys, const float* rows, float weight);

  // In the order in which keys came first.
  std::span<const std::uint64_t> keys() const { return keys_; }
  const float* rows() const { return rows_.data(); }

 private:
  // Where the key's row begins, and whether it is new.
  struct Place {
    std::size_t row = 0;
    bool is_new = false;
  };
  Place place_of(std::uint64_t key);

  const std::uint32_t dimension_;
  std::vector<std::uint64_t> keys_;
  std::vector<float> rows_;
  std::vector<std::uint32_t> slots_;  // number of the key and one; 0: empty
  int bits_ = 0;
};

}  // namespace tally::server
