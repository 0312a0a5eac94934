#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tally/error.h"

namespace tally::train {

// Which gradients make up the next update under update=backup:B: the first `needed` of its version,
// in the order in which they are offered. A value without clock or thread.
class BackupRound final {
 public:
  // `needed` is from 1 to `ranks`.
  BackupRound(int ranks, int needed);

  // A gradient that was computed at `version`: of another one than the current it is not counted.
  void offer(Rank rank, std::uint64_t version);
  // Has nothing more to offer: it is not waited for.
  void drain(Rank rank);

  // Whose gradients count, by rank, once that is known: 1 or 0 for each. Nobody's if all have
  // drained.
  std::optional<std::vector<std::uint8_t>> due() const;
  bool all_drained() const { return drained_count_ == static_cast<int>(drained_.size()); }
  std::uint64_t version() const { return version_; }
  // What due() gave is taken: the next version. After all have drained they may offer again.
  void next();

 private:
  const int needed_;
  std::uint64_t version_ = 0;
  std::vector<std::uint8_t> counts_;   // by rank: offered for this version, among the first
  std::vector<std::uint8_t> drained_;  // by rank
  int counted_ = 0;
  int drained_count_ = 0;
};

}  // namespace tally::train
