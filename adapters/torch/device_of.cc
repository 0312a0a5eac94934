#include <torch/torch.h>

#include <chrono>

#include "adapters/torch/gpu.h"
#include "adapters/torch/tensors.h"
#include "tally/torch.h"

namespace tally {

at::Device device_of(const Job& job) {
  if (!torch::cuda::is_available()) return at::kCPU;
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  return {at::kCUDA, static_cast<at::DeviceIndex>(job.local_rank() % gpus)};
}

std::unique_ptr<Communicator> device_world(Job& job, const at::Device& device) {
  if (device.is_cpu())
    adapter::refuse(ErrorCode::kInvalid,
                    "device_world() is for GPUs: job.world() has the collectives of host memory");
  const std::unique_ptr<adapter::Gpu> gpu = adapter::open_gpu(device);
  if (!gpu)
    adapter::refuse(ErrorCode::kInvalid,
                    "device_world(): Tally was built without nvcc, which its kernels need");
  const Deadline by = Deadline::after(std::chrono::minutes(5));
  return adapter::or_throw(gpu->communicator(job.world(), by));
}

}  // namespace tally
