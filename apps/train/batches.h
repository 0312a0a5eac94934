#pragma once
#include <string>

#include <torch/torch.h>

#include "data/dataset.h"
#include "train/loader.h"

namespace tally::app {

// A batch as the model takes it. On the CPU it borrows the loader's memory: valid as long as that
// is.
struct TensorBatch {
  at::Tensor input;
  at::Tensor target;
};
TensorBatch to_tensors(const train::Batch& batch, const data::SampleShape& shape,
                       const at::Device& device);

// While one lives, forward passes compute in bfloat16 where libtorch holds that to be good;
// parameters stay as they are.
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

// The state of this rank's random numbers as bytes, and back; what is not such a state is kCorrupt.
std::string random_state(const at::Device& device);
Result<void> set_random_state(const at::Device& device, const std::string& bytes);

}  // namespace tally::app
