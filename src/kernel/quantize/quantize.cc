#include "kernel/quantize/quantize.h"

#include <bit>

#include "kernel/quantize/quantize_level.h"

namespace tally::kernel {

// The loops store and load numbers as they lie in memory.
static_assert(std::endian::native == std::endian::little);

const QuantizeKernels& quantize_kernels(Level level) {
  // Also refuses a level that this processor cannot run.
  static_cast<void>(kernels(level));
#if defined(__x86_64__)
  if (level == Level::kAvx2) return kAvx2Quantize;
  if (level == Level::kAvx512) return kAvx512Quantize;
#endif
  return kBaselineQuantize;
}

const QuantizeKernels& quantize_kernels() {
  static const QuantizeKernels& best = quantize_kernels(available_levels().back());
  return best;
}

}  // namespace tally::kernel
