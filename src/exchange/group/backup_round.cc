#include "exchange/group/backup_round.h"

#include <algorithm>

#include "base/check.h"

namespace tally::exchange {

BackupRound::BackupRound(int ranks, int needed)
    : needed_(needed),
      counts_(static_cast<std::size_t>(ranks)),
      drained_(static_cast<std::size_t>(ranks)) {
  TALLY_CHECK(needed >= 1 && needed <= ranks);
}

void BackupRound::offer(Rank rank, std::uint64_t version) {
  auto& counts = counts_.at(static_cast<std::size_t>(rank));
  if (version != version_ || counts != 0 || counted_ == needed_) return;
  counts = 1;
  ++counted_;
}

void BackupRound::drain(Rank rank) {
  auto& drained = drained_.at(static_cast<std::size_t>(rank));
  if (drained == 0) ++drained_count_;
  drained = 1;
}

std::optional<std::vector<std::uint8_t>> BackupRound::due() const {
  if (all_drained()) return counts_;
  const int living = static_cast<int>(drained_.size()) - drained_count_;
  if (counted_ < std::min(needed_, living)) return std::nullopt;
  return counts_;
}

void BackupRound::next() {
  if (all_drained()) {
    drained_.assign(drained_.size(), 0);
    drained_count_ = 0;
  }
  counts_.assign(counts_.size(), 0);
  counted_ = 0;
  ++version_;
}

}  // namespace tally::exchange
