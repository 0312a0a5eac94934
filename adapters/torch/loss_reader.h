#pragma once
#include <vector>

#include <c10/core/Event.h>
#include <torch/torch.h>

namespace tally::adapter {

// Reads the losses of forward passes. Those on a GPU are copied behind the forward pass, so that
// take() waits for that only, and not for the work that the GPU has been given since.
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
