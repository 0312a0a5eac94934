#include "kernel/lowrank/factor.h"

#include "kernel/lowrank/factor_level.h"

namespace tally::kernel {

const FactorKernels& factor_kernels(Level level) {
  // Also refuses a level that this processor cannot run.
  static_cast<void>(kernels(level));
#if defined(__x86_64__)
  if (level == Level::kAvx2) return kAvx2Factors;
  if (level == Level::kAvx512) return kAvx512Factors;
#endif
  return kBaselineFactors;
}

const FactorKernels& factor_kernels() {
  static const FactorKernels& best = factor_kernels(available_levels().back());
  return best;
}

}  // namespace tally::kernel
