#include "adapters/torch/loss_reader.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "adapters/torch/gpu_event.h"

namespace tally::adapter {

void LossReader::add(const at::Tensor& loss, double samples) {
  if (!loss.device().is_cuda()) {
    sum_ += loss.item<double>() * samples;
    return;
  }
  if (used_ == reads_.size()) reads_.emplace_back();
  Read& read = reads_[used_++];
  if (!read.value.defined() || read.value.scalar_type() != loss.scalar_type())
    read.value = at::empty({}, at::TensorOptions(loss.scalar_type()).pinned_memory(true));
  read.value.copy_(loss.detach().reshape({}), /*non_blocking=*/true);
  const c10::impl::VirtualGuardImpl cuda(c10::DeviceType::CUDA);
  read.copied.record(cuda.getStream(loss.device()));
  read.samples = samples;
}

double LossReader::take() {
  for (std::size_t i = 0; i < used_; ++i) {
    wait_for(reads_[i].copied);
    sum_ += reads_[i].value.item<double>() * reads_[i].samples;
  }
  const double sum = sum_;
  clear();
  return sum;
}

void LossReader::clear() {
  used_ = 0;
  sum_ = 0;
}

}  // namespace tally::adapter
