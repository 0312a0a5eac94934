#include "server/part/receipts.h"

#include <algorithm>
#include <utility>

namespace tally::server {
namespace {

bool contains(const std::vector<std::uint64_t>& numbers, std::uint64_t number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

}  // namespace

Receipts::Standing Receipts::standing(std::uint64_t sequence) const {
  if (sequence > last_) return Standing::kNew;
  if (contains(held_, sequence)) return Standing::kHeld;
  if (contains(dropped_, sequence)) return Standing::kDropped;
  return Standing::kApplied;
}

void Receipts::apply(std::uint64_t sequence) {
  std::erase(held_, sequence);
  last_ = std::max(last_, sequence);
}

void Receipts::drop(std::uint64_t sequence) {
  apply(sequence);
  if (contains(dropped_, sequence)) return;
  if (dropped_.size() == kMaxDropped) dropped_.erase(dropped_.begin());
  dropped_.push_back(sequence);
}

bool Receipts::hold(std::uint64_t sequence) {
  if (contains(held_, sequence)) return true;
  if (held_.size() == kMaxHeld) return false;
  held_.push_back(sequence);
  last_ = std::max(last_, sequence);
  return true;
}

Receipts Receipts::restored(std::uint64_t last, std::vector<std::uint64_t> held,
                            std::vector<std::uint64_t> dropped) {
  Receipts receipts;
  receipts.last_ = last;
  receipts.held_ = std::move(held);
  receipts.dropped_ = std::move(dropped);
  return receipts;
}

}  // namespace tally::server
