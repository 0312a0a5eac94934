#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "collective/schedule.h"

namespace tally::collective {

// Algorithms get sizes, never memory. Empty blocks are sent as messages of zero bytes, so that the
// number of messages depends on the number of ranks alone.

// `count` elements of `element_bytes` each.
struct Vector {
  std::size_t count = 0;
  std::size_t element_bytes = 1;

  std::size_t bytes() const { return count * element_bytes; }
};

// The whole of `vector`, in `buffer`.
Block whole(Buffer buffer, const Vector& vector);

// A buffer that holds one part for each rank, one after the other in the order of ranks.
class Parts {
 public:
  // `vector` cut as by part_of().
  static Parts split(const Vector& vector, int ranks);
  // `each` for every rank.
  static Parts equal(const Vector& each, int ranks);
  // counts[r] elements for rank r.
  static Parts of(std::span<const std::size_t> counts, std::size_t element_bytes);

  int size() const { return static_cast<int>(ends_.size()) - 1; }
  std::size_t total_bytes() const { return ends_.back(); }
  std::size_t largest_bytes() const;

  // The part of rank `index`.
  Block block(Buffer buffer, int index) const { return blocks(buffer, index, index + 1); }
  // The parts of ranks [first, last).
  Block blocks(Buffer buffer, int first, int last) const;
  // The part of rank `index` as a buffer of its own.
  Block alone(Buffer buffer, int index) const;

 private:
  explicit Parts(std::vector<std::size_t> ends) : ends_(std::move(ends)) {}
  // In bytes; ends_[0] is 0, ends_[r + 1] is the end of rank r's part.
  std::vector<std::size_t> ends_;
};

// `index` modulo `ranks`, never negative.
constexpr Rank wrap(int index, int ranks) {
  const int remainder = index % ranks;
  return remainder < 0 ? remainder + ranks : remainder;
}

}  // namespace tally::collective
