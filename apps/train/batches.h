#pragma once
#include <string>

#include <torch/torch.h>

#include "data/dataset.h"
#include "train/loader.h"

namespace tally::app {

// A batch as the model takes it. On the CPU it borrows the loader's memory and is valid as long as
// that.
struct TensorBatch {
  at::Tensor input;
  at::Tensor target;
};
TensorBatch to_tensors(const train::Batch& batch, const data::SampleShape& shape,
                       const at::Device& device);

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
};

// Saves and restores the state of this rank's random numbers; kCorrupt for other bytes.
std::string random_state(const at::Device& device);
Result<void> set_random_state(const at::Device& device, const std::string& bytes);

}  // namespace tally::app
