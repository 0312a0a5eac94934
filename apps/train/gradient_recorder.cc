#include "apps/train/gradient_recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "adapters/torch/tensors.h"

namespace tally::app {

GradientRecorder::GradientRecorder(torch::nn::Module& module, std::string file,
                                   std::vector<std::uint64_t> steps)
    : file_(std::move(file)), due_(steps.rbegin(), steps.rend()) {
  for (const adapter::NamedTensor& parameter : adapter::tensors_of(module).trained) {
    const unsigned hook = parameter.tensor.register_hook(
        [this, name = parameter.name](const at::Tensor& gradient) { take(name, gradient); });
    hooks_.emplace_back(parameter.tensor, hook);
  }
}

GradientRecorder::~GradientRecorder() {
  for (const auto& [tensor, hook] : hooks_) tensor.remove_hook(hook);
}

void GradientRecorder::begin(std::uint64_t step) {
  step_ = !due_.empty() && step >= due_.back() ? step : 0;
}

void GradientRecorder::end() {
  const std::string prefix = fmt::format("step.{}/", step_);
  const bool came = step_ > 0 && !tensors_.empty() && tensors_.back().name.rfind(prefix, 0) == 0;
  if (came) {
    recorded_.push_back(step_);
    while (!due_.empty() && due_.back() <= step_) due_.pop_back();
  }
  step_ = 0;
}

void GradientRecorder::take(const std::string& name, const at::Tensor& gradient) {
  if (step_ == 0 || !gradient.defined()) return;
  const at::Tensor copy =
      gradient.detach().to_dense().to(at::TensorOptions(at::kCPU).dtype(at::kFloat)).contiguous();
  const float* const values = copy.data_ptr<float>();
  tensors_.push_back({.name = fmt::format("step.{}/{}", step_, name),
                      .shape = copy.sizes().vec(),
                      .values = {values, values + copy.numel()}});
}

Result<std::string> GradientRecorder::write() const {
  if (recorded_.empty()) return fmt::format("no gradients for {}: no such step was made", file_);
  TALLY_TRY(checkpoint::write_float_tensors(file_, tensors_, "pt"));
  return fmt::format("gradients of step{} {} in {}", recorded_.size() == 1 ? "" : "s",
                     fmt::join(recorded_, ", "), file_);
}

}  // namespace tally::app
