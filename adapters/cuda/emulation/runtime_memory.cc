// Allocations, copies, and handles of memory.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "adapters/cuda/emulation/memory.h"
#include "adapters/cuda/emulation/properties.h"
#include "adapters/cuda/emulation/stream.h"

namespace tally::cuda::emulation {
namespace {

cudaError_t allocate(cudaMemoryType type, std::size_t bytes, void** data) {
  *data = bytes == 0 ? nullptr : memory().allocate(type, bytes);
  return outcome(bytes > 0 && *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t release(cudaMemoryType type, void* data) {
  const bool is_known = data == nullptr || memory().release(type, data);
  return outcome(is_known ? cudaSuccess : cudaErrorInvalidValue);
}

// With `waits` it returns after the work.
cudaError_t enqueue_on(cudaStream_t stream, std::function<void()> work, bool waits) {
  const Point end = streams().enqueue(stream, std::move(work));
  if (end.stream == nullptr) return outcome(cudaErrorInvalidResourceHandle);
  if (waits) end.wait();
  return cudaSuccess;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream, bool waits) {
  const cudaMemoryType target =
      kind == cudaMemcpyDeviceToHost ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  const cudaMemoryType source =
      kind == cudaMemcpyHostToDevice ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  if (bytes > 0 && !(memory().has(target, to, bytes) && memory().has(source, from, bytes)))
    return outcome(cudaErrorInvalidValue);
  return enqueue_on(
      stream,
      [=] { std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to)); },
      waits);
}

// The content of a handle of memory.
struct IpcContent {
  void* data;
  std::uint64_t number;  // of the allocation
};

}  // namespace
}  // namespace tally::cuda::emulation

namespace emulation = tally::cuda::emulation;

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return emulation::allocate(cudaMemoryTypeDevice, bytes, memory);
}
cudaError_t cudaFree(void* memory) { return emulation::release(cudaMemoryTypeDevice, memory); }
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return emulation::allocate(cudaMemoryTypeHost, bytes, memory);
}
cudaError_t cudaFreeHost(void* memory) { return emulation::release(cudaMemoryTypeHost, memory); }

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *free = emulation::memory().free_bytes();
  *all = emulation::Memory::kDeviceBytes;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const auto found = emulation::memory().find(pointer);
  *attributes = {.type = found ? found->type : cudaMemoryTypeUnregistered, .device = 0};
  return emulation::outcome(cudaSuccess);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return emulation::copy(to, from, bytes, kind, nullptr, /*waits=*/true);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return emulation::copy(to, from, bytes, kind, stream, /*waits=*/false);
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0 && !emulation::memory().has(cudaMemoryTypeDevice, to, bytes))
    return emulation::outcome(cudaErrorInvalidValue);
  return emulation::enqueue_on(
      stream, [=] { std::memset(to, value, bytes); }, /*waits=*/false);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  const auto found = emulation::memory().find(memory);
  if (!found || found->type != cudaMemoryTypeDevice)
    return emulation::outcome(cudaErrorInvalidValue);
  const emulation::IpcContent content = {.data = memory, .number = found->number};
  *handle = {};
  std::memcpy(handle, &content, sizeof content);
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned /*flags*/) {
  emulation::IpcContent content;
  std::memcpy(&content, &handle, sizeof content);
  const auto found = emulation::memory().find(content.data);
  if (!found || found->number != content.number)
    return emulation::outcome(cudaErrorInvalidResourceHandle);
  *memory = content.data;
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  return emulation::outcome(emulation::memory().find(memory) ? cudaSuccess : cudaErrorInvalidValue);
}
