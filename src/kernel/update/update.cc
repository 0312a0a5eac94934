#include "kernel/update/update.h"

#include <type_traits>

#include "kernel/update/update_level.h"

namespace tally::kernel {
namespace {

const UpdateLoops& loops_of(Level level) {
  // Also refuses a level that this processor cannot run.
  static_cast<void>(kernels(level));
#if defined(__x86_64__)
  if (level == Level::kAvx2) return kAvx2Updates;
  if (level == Level::kAvx512) return kAvx512Updates;
#endif
  return kBaselineUpdates;
}

}  // namespace

template <typename T>
const UpdateKernels<T>& update_kernels(Level level) {
  if constexpr (std::is_same_v<T, float>) {
    return loops_of(level).of_float;
  } else {
    return loops_of(level).of_double;
  }
}

template <typename T>
const UpdateKernels<T>& update_kernels() {
  static const UpdateKernels<T>& best = update_kernels<T>(available_levels().back());
  return best;
}

template const UpdateKernels<float>& update_kernels(Level);
template const UpdateKernels<double>& update_kernels(Level);
template const UpdateKernels<float>& update_kernels();
template const UpdateKernels<double>& update_kernels();

}  // namespace tally::kernel
