#include "kernel/array/array_level.h"

namespace tally::kernel {

const ArrayLoops& array_loops(Level level) {
  // Also refuses a level that this processor cannot run.
  static_cast<void>(kernels(level));
#if defined(__x86_64__)
  if (level == Level::kAvx2) return kAvx2ArrayLoops;
  if (level == Level::kAvx512) return kAvx512ArrayLoops;
#endif
  return kBaselineArrayLoops;
}

const ArrayLoops& array_loops() {
  static const ArrayLoops& best = array_loops(available_levels().back());
  return best;
}

}  // namespace tally::kernel
