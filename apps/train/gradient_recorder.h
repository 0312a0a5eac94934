#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "checkpoint/tensor_file.h"

namespace tally::app {

// Copies this worker's own gradients of some steps as backward computes them: before clipping and
// before the exchange. They stay in memory until write(). Threads: one; hooks run inside
// backward(), which waits for them.
class GradientRecorder final {
 public:
  // Created after the trainer, which may move the parameters; the module outlives this object.
  // `steps` are ascending.
  GradientRecorder(torch::nn::Module& module, std::string file, std::vector<std::uint64_t> steps);
  ~GradientRecorder();
  GradientRecorder(const GradientRecorder&) = delete;
  GradientRecorder& operator=(const GradientRecorder&) = delete;

  // The next backward pass belongs to this step. A worker that takes no part in a due step records
  // its next step instead.
  void begin(std::uint64_t step);
  void end();

  // Writes all recorded gradients as tensors "step.50/NAME". Returns a message for the user;
  // kSystem if the file cannot be written.
  Result<std::string> write() const;

 private:
  void take(const std::string& name, const at::Tensor& gradient);

  const std::string file_;
  std::vector<std::uint64_t> due_;  // the next step last
  std::uint64_t step_ = 0;          // being recorded; 0: none
  std::vector<std::uint64_t> recorded_;
  std::vector<checkpoint::FloatTensor> tensors_;
  std::vector<std::pair<at::Tensor, unsigned>> hooks_;
};

}  // namespace tally::app
