#pragma once
#include "tally/communicator.h"

namespace tally::collective {

// Where the ranks of a communicator are, as far as the choice of an algorithm goes.
struct Placement {
  int ranks = 1;
  int hosts = 1;  // ranks that share no memory count as hosts of their own
  bool one_host() const { return hosts == 1; }
  bool several_per_host() const { return hosts > 1 && hosts < ranks; }
};

// The algorithm for `request`: the forced one if it exists for this operation and placement
// (kInvalid otherwise), else the fastest by measurement. Depends only on what is the same on all
// ranks.
Result<Algorithm> choose(const Request& request, const Placement& placement);

// Sizes up to which a tree, and then halving-doubling, beats what comes next, across TCP.
inline constexpr std::size_t kTreeBytes = std::size_t{2} << 10;
inline constexpr std::size_t kHalvingDoublingBytes = std::size_t{256} << 10;

}  // namespace tally::collective
