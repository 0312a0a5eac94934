#include "kernel/quantize/dither.h"

#include "kernel/quantize/dither_level.h"

namespace tally::kernel {

DitherKernels dither_kernels(Level level) {
  // Also refuses a level that this processor cannot run.
  static_cast<void>(kernels(level));
#if defined(__x86_64__)
  if (level == Level::kAvx2) return kAvx2Dither;
  if (level == Level::kAvx512) return kAvx512Dither;
#endif
  return kBaselineDither;
}

DitherKernels dither_kernels() {
  static const DitherKernels best = dither_kernels(available_levels().back());
  return best;
}

}  // namespace tally::kernel
