#include <torch/torch.h>

#include "tally/torch.h"

namespace tally {

at::Device device_of(const Job& job) {
  if (!torch::cuda::is_available()) return at::kCPU;
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  return {at::kCUDA, static_cast<at::DeviceIndex>(job.local_rank() % gpus)};
}

}  // namespace tally
