#include "adapters/torch/precision_scope.h"

#include <ATen/autocast_mode.h>

#define TALLY_TORCH_GE(a, b) \
  (TORCH_VERSION_MAJOR > (a) || (TORCH_VERSION_MAJOR == (a) && TORCH_VERSION_MINOR >= (b)))

namespace tally::adapter {
namespace {

at::ScalarType type_of(const std::string& precision) {
  if (precision == "bfloat16") return at::kBFloat16;
  return precision == "float16" ? at::kHalf : at::kFloat;
}

void set_autocast(bool cuda, at::ScalarType type, bool enabled) {
#if TALLY_TORCH_GE(2, 4)
  const at::DeviceType device = cuda ? at::kCUDA : at::kCPU;
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::set_autocast_dtype(device, type);
#else
  if (cuda) {
    at::autocast::set_enabled(enabled);
    at::autocast::set_autocast_gpu_dtype(type);
  } else {
    at::autocast::set_cpu_enabled(enabled);
    at::autocast::set_autocast_cpu_dtype(type);
  }
#endif
}

}  // namespace

PrecisionScope::PrecisionScope(const std::string& precision, const at::Device& device)
    : type_(type_of(precision)), cuda_(device.is_cuda()) {
  if (type_ == at::kFloat) return;
  at::autocast::increment_nesting();
  set_autocast(cuda_, type_, true);
}

PrecisionScope::~PrecisionScope() {
  if (type_ == at::kFloat) return;
  set_autocast(cuda_, type_, false);
  // Cast parameters are cached until the outermost scope ends, but change with every step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace tally::adapter
