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

Autocast present_autocast(bool cuda) {
#if TALLY_TORCH_GE(2, 4)
  const at::DeviceType device = cuda ? at::kCUDA : at::kCPU;
  return {.enabled = at::autocast::is_autocast_enabled(device),
          .type = at::autocast::get_autocast_dtype(device)};
#else
  if (cuda)
    return {.enabled = at::autocast::is_enabled(), .type = at::autocast::get_autocast_gpu_dtype()};
  return {.enabled = at::autocast::is_cpu_enabled(),
          .type = at::autocast::get_autocast_cpu_dtype()};
#endif
}

void set_autocast(bool cuda, const Autocast& autocast) {
#if TALLY_TORCH_GE(2, 4)
  const at::DeviceType device = cuda ? at::kCUDA : at::kCPU;
  at::autocast::set_autocast_enabled(device, autocast.enabled);
  at::autocast::set_autocast_dtype(device, autocast.type);
#else
  if (cuda) {
    at::autocast::set_enabled(autocast.enabled);
    at::autocast::set_autocast_gpu_dtype(autocast.type);
  } else {
    at::autocast::set_cpu_enabled(autocast.enabled);
    at::autocast::set_autocast_cpu_dtype(autocast.type);
  }
#endif
}

}  // namespace

PrecisionScope::PrecisionScope(const std::string& precision, const at::Device& device)
    : type_(type_of(precision)), cuda_(device.is_cuda()) {
  if (type_ == at::kFloat) return;
  before_ = present_autocast(cuda_);
  at::autocast::increment_nesting();
  set_autocast(cuda_, {.enabled = true, .type = type_});
}

PrecisionScope::~PrecisionScope() {
  if (type_ == at::kFloat) return;
  set_autocast(cuda_, before_);
  // Cast parameters are cached until the outermost scope ends, but change with every step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace tally::adapter
