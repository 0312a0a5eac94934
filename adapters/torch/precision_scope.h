#pragma once
#include <string>

#include <torch/torch.h>

namespace tally::adapter {

// The autocast of a kind of devices, in this thread.
struct Autocast {
  bool enabled = false;
  at::ScalarType type = at::kFloat;
};

// While an object exists, forward passes compute in `precision` (bfloat16, float16) where
// libtorch's autocast does; parameters keep their type. No effect for float32.
class PrecisionScope final {
 public:
  PrecisionScope(const std::string& precision, const at::Device& device);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  const at::ScalarType type_;
  const bool cuda_;
  Autocast before_;
};

}  // namespace tally::adapter
