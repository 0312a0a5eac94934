#include "kernel/sparse/residual.h"

#include "kernel/sparse/residual_level.h"

namespace tally::kernel {

const ResidualKernels& residual_kernels(Level level) {
  // Also refuses a level that this processor cannot run.
  static_cast<void>(kernels(level));
#if defined(__x86_64__)
  if (level == Level::kAvx2) return kAvx2Residuals;
  if (level == Level::kAvx512) return kAvx512Residuals;
#endif
  return kBaselineResiduals;
}

const ResidualKernels& residual_kernels() {
  static const ResidualKernels& best = residual_kernels(available_levels().back());
  return best;
}

}  // namespace tally::kernel
