#pragma once
#include <vector>

#include <c10/core/Event.h>
#include <torch/torch.h>

namespace tally::adapter {

// Reads the losses of forward passes. The copy of a loss on a GPU is queued when it is added, so
// that take() waits for the work before that only, and not for what the GPU has been given since.
// Throws Failure if the GPU does not answer.
class LossReader final {
 public:
  // The mean loss over `samples`.
  void add(const at::Tensor& loss, double samples);
  // The sum of the added losses, each times its samples.
  double take();
  void clear();

 private:
  struct Read {
    at::Tensor value;  // in pinned memory
    c10::Event copied{c10::DeviceType::CUDA};
    double samples = 0;
  };
  double sum_ = 0;           // of losses on the CPU
  std::vector<Read> reads_;  // the first `used_` are under way
  std::size_t used_ = 0;
};

}  // namespace tally::adapter
