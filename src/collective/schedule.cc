#include "collective/schedule.h"

#include <algorithm>

#include "base/check.h"

namespace tally::collective {

void Schedule::copy(Block source, Block block) {
  TALLY_CHECK(!step_ends_.empty());
  TALLY_CHECK(source.bytes == block.bytes);
  if (block.bytes == 0) return;
  actions_.push_back({.kind = ActionKind::kCopy, .block = block, .source = source});
}

void Schedule::divide(Block block) {
  TALLY_CHECK(!step_ends_.empty());
  if (block.bytes == 0) return;
  actions_.push_back({.kind = ActionKind::kDivide, .block = block});
}

void Schedule::exchange(ActionKind kind, Rank peer, std::uint32_t message, Block block) {
  TALLY_CHECK(!step_ends_.empty());
  actions_.push_back({.kind = kind, .peer = peer, .message = message, .block = block});
}

std::span<const Action> Schedule::step(std::size_t index) const {
  TALLY_CHECK(index < step_ends_.size());
  const std::size_t begin = step_ends_[index];
  const std::size_t end = index + 1 < step_ends_.size() ? step_ends_[index + 1] : actions_.size();
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

}  // namespace tally::collective
