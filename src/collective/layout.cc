#include "collective/layout.h"

#include <algorithm>

#include "base/check.h"

namespace tally::collective {

Block whole(Buffer buffer, const Vector& vector) {
  return {.buffer = buffer, .offset_bytes = 0, .bytes = vector.bytes()};
}

Parts Parts::split(const Vector& vector, int ranks) {
  TALLY_CHECK(ranks > 0);
  std::vector<std::size_t> ends{0};
  ends.reserve(static_cast<std::size_t>(ranks) + 1);
  for (int rank = 0; rank < ranks; ++rank) {
    ends.push_back(part_of(vector.count, ranks, rank).end * vector.element_bytes);
  }
  return Parts(std::move(ends));
}

Parts Parts::equal(const Vector& each, int ranks) {
  TALLY_CHECK(ranks > 0);
  const std::vector<std::size_t> counts(static_cast<std::size_t>(ranks), each.count);
  return of(counts, each.element_bytes);
}

Parts Parts::of(std::span<const std::size_t> counts, std::size_t element_bytes) {
  TALLY_CHECK(!counts.empty());
  std::vector<std::size_t> ends{0};
  ends.reserve(counts.size() + 1);
  for (const std::size_t count : counts) ends.push_back(ends.back() + count * element_bytes);
  return Parts(std::move(ends));
}

std::size_t Parts::largest_bytes() const {
  std::size_t largest = 0;
  for (int rank = 0; rank < size(); ++rank) {
    largest = std::max(largest, block(Buffer::kOutput, rank).bytes);
  }
  return largest;
}

Block Parts::blocks(Buffer buffer, int first, int last) const {
  TALLY_CHECK(0 <= first && first <= last && last <= size());
  const std::size_t begin = ends_[static_cast<std::size_t>(first)];
  const std::size_t end = ends_[static_cast<std::size_t>(last)];
  return {.buffer = buffer, .offset_bytes = begin, .bytes = end - begin};
}

Block Parts::alone(Buffer buffer, int index) const {
  return {.buffer = buffer, .offset_bytes = 0, .bytes = block(buffer, index).bytes};
}

}  // namespace tally::collective
