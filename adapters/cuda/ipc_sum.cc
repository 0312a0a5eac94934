#include "adapters/cuda/ipc_sum.h"

#include <cstring>

#include "adapters/cuda/peer_gather.h"
#include "adapters/cuda/peer_memory.h"
#include "adapters/cuda/peer_sum.h"
#include "base/errors.h"

namespace tally::cuda {
namespace {

// CUDA's handles of memory for other processes.
class CudaIpc final : public MemoryExport {
 public:
  explicit CudaIpc(CudaDevice& device) : device_(device) {}

  Result<Handle> export_memory(const exchange::DeviceMemory& memory) override {
    const CurrentGpu current(device_.index());
    cudaIpcMemHandle_t raw;
    static_assert(sizeof(raw) == sizeof(Handle));
    if (const cudaError_t status = cudaIpcGetMemHandle(&raw, memory.data); status != cudaSuccess)
      return refused(status);
    Handle handle;
    std::memcpy(handle.data(), &raw, sizeof(raw));
    return handle;
  }

  Result<std::shared_ptr<std::byte>> import_memory(const Handle& handle) override {
    const CurrentGpu current(device_.index());
    cudaIpcMemHandle_t raw;
    std::memcpy(&raw, handle.data(), sizeof(raw));
    void* data = nullptr;
    const cudaError_t status = cudaIpcOpenMemHandle(&data, raw, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) return refused(status);
    return std::static_pointer_cast<std::byte>(device_.owned(data, &cudaIpcCloseMemHandle));
  }

 private:
  Error refused(cudaError_t status) const {
    (void)cudaGetLastError();
    return system_failure(
        "{}: processes cannot share its memory ({}: {}); run the ranks in one container, give each "
        "rank a GPU of its own, or let gradients travel through host memory",
        device_.name(), cudaGetErrorName(status), cudaGetErrorString(status));
  }

  CudaDevice& device_;
};

}  // namespace

Result<std::unique_ptr<exchange::DeviceSum>> ipc_sum(
    Communicator& world, CudaDevice& device, const std::vector<exchange::DeviceSum::Array>& arrays,
    Deadline by) {
  CudaIpc between(device);
  return make_peer_sum(world, device, between, arrays, by);
}

Result<std::unique_ptr<exchange::DeviceGather>> ipc_gather(
    Communicator& world, CudaDevice& device, const std::vector<std::size_t>& capacities,
    Deadline by) {
  CudaIpc between(device);
  return make_peer_gather(world, device, between, capacities, by);
}

}  // namespace tally::cuda
