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

// While an object exists, forward passes compute in bfloat16 where libtorch's autocast does;
// parameters keep their type.
class Bfloat16Scope final {
 public:
  Bfloat16Scope(bool enabled, const at::Device& device);
  ~Bfloat16Scope();
  Bfloat16Scope(const Bfloat16Scope&) = delete;
  Bfloat16Scope& operator=(const Bfloat16Scope&) = delete;

 private:
  const bool enabled_;
  const bool cuda_;
};

// Saves and restores the state of this rank's random numbers; kCorrupt for other bytes.
std::string random_state(const at::Device& device);
Result<void> set_random_state(const at::Device& device, const std::string& bytes);

}  // namespace tally::app
