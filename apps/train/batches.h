#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <c10/core/Event.h>
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

// Pictures [samples, channels, height, width] with the channels last in memory, for convolutions.
// Other tensors are returned as they are.
at::Tensor with_channels_last(const at::Tensor& input);

// Whether the batches of a recipe have the channels last on `device`, with --channels-last auto, on
// or off.
bool has_channels_last(const std::string& option, bool has_convolutions, const at::Device& device);

// The batches of a training on its device. The loader reads into pinned memory, from which a GPU
// copies while the program goes on. Throws Failure if the GPU does not answer. Threads: one.
class DeviceBatches final {
 public:
  struct Options {
    at::Device device = at::kCPU;
    bool channels_last = false;
    // Batches with so many samples are all in the same tensors, as CUDA graphs need it; 0: none.
    std::uint64_t fixed = 0;
  };
  DeviceBatches(const Options& options, const data::SampleShape& shape);

  // Memory from which the device copies fast, for LoaderOptions; empty if any memory is as good.
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> allocator() const;

  // Begins to copy a batch to the device. On the CPU the result borrows the memory of the batch.
  // In both cases it must stay as it is until release().
  TensorBatch take(const train::Batch& batch);
  // Waits until the memory of the last batch is free: before the loader's next batch.
  void release();

 private:
  const Options options_;
  const data::SampleShape shape_;
  TensorBatch fixed_;
  std::optional<c10::Event> copied_;  // only on a GPU: the last copy
};

// Saves and restores the state of this rank's random numbers. False, with nothing changed, if the
// state is that of another kind of device; kCorrupt for other bytes.
std::string random_state(const at::Device& device);
Result<bool> set_random_state(const at::Device& device, const std::string& bytes);

}  // namespace tally::app
