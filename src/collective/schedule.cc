#include "collective/schedule.h"

#include <algorithm>

#include "base/check.h"

namespace tally::collective {

void Schedule::copy(Block source, Block block) {
  TALLY_CHECK(!step_begins_.empty());
  TALLY_CHECK(source.bytes == block.bytes);
  if (block.bytes == 0) return;
  actions_.push_back({.kind = ActionKind::kCopy, .block = block, .source = source});
}

void Schedule::divide(Block block) {
  TALLY_CHECK(!step_begins_.empty());
  if (block.bytes == 0) return;
  actions_.push_back({.kind = ActionKind::kDivide, .block = block});
}

void Schedule::exchange(ActionKind kind, Rank peer, std::uint32_t message, Block block) {
  TALLY_CHECK(!step_begins_.empty());
  actions_.push_back({.kind = kind, .peer = peer, .message = message, .block = block});
}

std::span<const Action> Schedule::step(std::size_t index) const {
  TALLY_CHECK(index < step_begins_.size());
  const std::size_t begin = step_begins_[index];
  const std::size_t end =
      index + 1 < step_begins_.size() ? step_begins_[index + 1] : actions_.size();
  return std::span(actions_).subspan(begin, end - begin);
}

std::size_t Schedule::messages_sent() const {
  return static_cast<std::size_t>(
      std::count_if(actions_.begin(), actions_.end(),
                    [](const Action& action) { return action.kind == ActionKind::kSend; }));
}

std::size_t Schedule::bytes_sent() const {
  std::size_t bytes = 0;
  for (const Action& action : actions_) {
    if (action.kind == ActionKind::kSend) bytes += action.block.bytes;
  }
  return bytes;
}

Part part_of(std::size_t total, int parts, int index) {
  TALLY_CHECK(0 <= index && index < parts);
  const auto n = static_cast<std::size_t>(parts);
  const auto i = static_cast<std::size_t>(index);
  const std::size_t size = total / n;
  const std::size_t larger = total % n;  // parts that have one more
  const std::size_t begin = i * size + std::min(i, larger);
  return {.begin = begin, .end = begin + size + (i < larger ? 1 : 0)};
}

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
