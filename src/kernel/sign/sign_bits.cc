#include "kernel/sign/sign_bits.h"

#include "kernel/sign/sign_bits_level.h"

namespace tally::kernel {

SignKernels sign_kernels(Level level) {
  // Also refuses a level that this processor cannot run.
  static_cast<void>(kernels(level));
#if defined(__x86_64__)
  if (level == Level::kAvx2) return kAvx2Signs;
  if (level == Level::kAvx512) return kAvx512Signs;
#endif
  return kBaselineSigns;
}

SignKernels sign_kernels() {
  static const SignKernels best = sign_kernels(available_levels().back());
  return best;
}

}  // namespace tally::kernel
