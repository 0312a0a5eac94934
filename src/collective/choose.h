#pragma once
#include "tally/communicator.h"

namespace tally::collective {

// The placement of a communicator's ranks, as far as the choice of an algorithm depends on it.
struct Placement {
  int ranks = 1;
  int hosts = 1;  // ranks that share no memory count as hosts of their own
  bool one_host() const { return hosts == 1; }
  bool several_per_host() const { return hosts > 1 && hosts < ranks; }
};

// The algorithm for `request`: the forced one if it exists for this operation and placement
// (kInvalid otherwise), else the fastest by measurement. The choice depends only on values that are
// equal on all ranks.
Result<Algorithm> choose(const Request& request, const Placement& placement);

// The sizes up to which a tree, and then halving-doubling, is the fastest across TCP.
inline constexpr std::size_t kTreeBytes = std::size_t{2} << 10;
inline constexpr std::size_t kHalvingDoublingBytes = std::size_t{256} << 10;

}  // namespace tally::collective
