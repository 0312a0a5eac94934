#pragma once
#include "adapters/cuda/emulation/block.h"

// NOLINTBEGIN(readability-identifier-naming): the names of CUDA.

namespace cooperative_groups {

struct grid_group {
  void sync() const { tally::cuda::emulation::wait_for_grid(); }
};
inline grid_group this_grid() { return {}; }

}  // namespace cooperative_groups

// NOLINTEND(readability-identifier-naming)
