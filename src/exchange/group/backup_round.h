#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tally/error.h"

namespace tally::exchange {

// Decides which gradients make up the next update under update=backup:B: the first `needed`
// gradients of the current version, in the order in which they are offered. A value without clock
// or thread.
class BackupRound final {
 public:
  // `needed` is from 1 to `ranks`.
  BackupRound(int ranks, int needed);

  // Offers a gradient that `rank` computed at `version`. It counts only if `version` is the current
  // one.
  void offer(Rank rank, std::uint64_t version);
  // `rank` has no more gradients: updates do not wait for it.
  void drain(Rank rank);

  // By rank, 1 if the gradient counts and 0 if not; nullopt until the update is due. All 0 if all
  // ranks have drained.
  std::optional<std::vector<std::uint8_t>> due() const;
  bool all_drained() const { return drained_count_ == static_cast<int>(drained_.size()); }
  std::uint64_t version() const { return version_; }
  // Begins the next version, after the caller has used the result of due(). If all ranks have
  // drained they may offer again.
  void next();

 private:
  const int needed_;
  std::uint64_t version_ = 0;
  std::vector<std::uint8_t> counts_;   // by rank: its offer for this version is among the first
  std::vector<std::uint8_t> drained_;  // by rank
  int counted_ = 0;
  int drained_count_ = 0;
};

}  // namespace tally::exchange
