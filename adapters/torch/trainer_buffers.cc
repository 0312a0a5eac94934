#include "adapters/torch/trainer_impl.h"

namespace tally {

using adapter::NamedTensor;
using adapter::or_throw;

void Trainer::Impl::broadcast_from_first(const std::vector<NamedTensor>& tensors) {
  if (job_.size() == 1) return;
  for (const NamedTensor& named : tensors) {
    const at::Tensor host = named.tensor.detach().to(at::kCPU).contiguous();
    const std::span<std::byte> bytes = adapter::bytes_of(host);
    or_throw(job_.world().run({.operation = Operation::kBroadcast,
                               .input = bytes.data(),
                               .output = bytes.data(),
                               .count = bytes.size(),
                               .type = DataType::kUInt8,
                               .root = 0}));
    adapter::copy_into(named.tensor.detach(), host);
  }
}

// In float64: running statistics of a hundred ranks lose nothing.
void Trainer::Impl::average(const std::vector<NamedTensor>& tensors) {
  std::vector<double> values;
  for (const NamedTensor& named : tensors) {
    const at::Tensor host = named.tensor.detach().to(at::kCPU, at::kDouble).contiguous();
    const auto* const data = host.data_ptr<double>();
    values.insert(values.end(), data, data + host.numel());
  }
  if (values.empty()) return;
  or_throw(job_.world().allreduce(std::span(values), ReduceOp::kAverage));
  double* next = values.data();
  for (const NamedTensor& named : tensors) {
    const at::NoGradGuard no_grad;
    at::Tensor tensor = named.tensor;
    tensor.copy_(at::from_blob(next, tensor.sizes(), at::kDouble));
    next += tensor.numel();
  }
}

// Averaging now and then gives what averaging after every step would: running statistics are linear in what they see.
void Trainer::Impl::synchronise_buffers() {
  if (job_.size() == 1 || options_.buffers == Buffers::kLeave) return;
  if (options_.buffers == Buffers::kBroadcast) return broadcast_from_first(tensors_.buffers);
  std::vector<NamedTensor> real;
  std::vector<NamedTensor> whole;
  for (const NamedTensor& named : tensors_.buffers)
    (named.tensor.is_floating_point() ? real : whole).push_back(named);
  average(real);
  broadcast_from_first(whole);
}

}  // namespace tally
