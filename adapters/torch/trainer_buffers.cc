#include "adapters/torch/trainer_impl.h"

namespace tally {

using adapter::NamedTensor;

// Sums in float64, so that the running statistics of a hundred ranks lose no precision.
void Trainer::Impl::average(const std::vector<NamedTensor>& tensors) {
  std::vector<double> values;
  for (const NamedTensor& named : tensors) {
    const at::Tensor host = named.tensor.detach().to(at::kCPU, at::kDouble).contiguous();
    const auto* const data = host.data_ptr<double>();
    values.insert(values.end(), data, data + host.numel());
  }
  if (values.empty()) return;
  // The last element counts the ranks.
  values.push_back(1);
  values = model_->sum(std::move(values));
  for (double& value : values) value /= values.back();
  double* next = values.data();
  for (const NamedTensor& named : tensors) {
    const at::NoGradGuard no_grad;
    at::Tensor tensor = named.tensor;
    tensor.copy_(at::from_blob(next, tensor.sizes(), at::kDouble));
    next += tensor.numel();
  }
}

// Running statistics are linear in their inputs. Averaging them from time to time so gives the same
// result as averaging after every step.
void Trainer::Impl::synchronise_buffers() {
  settle();
  if (job_.size() == 1 || options_.buffers == Buffers::kLeave) return;
  if (options_.buffers == Buffers::kBroadcast) return model_->broadcast(tensors_.buffers);
  std::vector<NamedTensor> real;
  std::vector<NamedTensor> whole;
  for (const NamedTensor& named : tensors_.buffers)
    (named.tensor.is_floating_point() ? real : whole).push_back(named);
  average(real);
  model_->broadcast(whole);
}

}  // namespace tally
