// Errors and the device. The emulated GPU differs from a real one:
//
//   - Streams do all copies of cudaMemcpyAsync(), also those of memory that is not pinned, and
//     cudaFree() waits for no stream. Code that counts on waits that CUDA makes on its own fails.
//   - Addresses that no allocation has, and handles that no call has made, are errors.
//   - Errors belong to calls: none is reported by a later call, or ends the device, except where a
//     test makes a FailedGpu. A kernel that uses memory that does not exist ends the process.
//   - cudaIpcOpenMemHandle() opens memory of this process, and none of other processes.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "adapters/cuda/emulation/failed_gpu.h"
#include "adapters/cuda/emulation/properties.h"

namespace tally::cuda::emulation {
namespace {

constexpr int kVersion = CUDART_VERSION;
constexpr std::string_view kName = "Emulated GPU";
constexpr std::string_view kBusId = "0000:00:00.0";

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
};
ErrorText text_of(cudaError_t error) {
  const auto* const found =
      std::find_if(std::begin(kErrors), std::end(kErrors),
                   [error](const ErrorText& known) { return known.error == error; });
  if (found != std::end(kErrors)) return *found;
  return {error, "unrecognized error code", "unrecognized error code"};
}

cudaError_t& last_error() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

// The calls of this thread until the GPU fails, if it does.
std::optional<int>& calls_until_failure() {
  static thread_local std::optional<int> calls;
  return calls;
}

cudaError_t check_device(int device) {
  return outcome(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

}  // namespace

FailedGpu::FailedGpu(int after_calls) { calls_until_failure() = after_calls; }
FailedGpu::~FailedGpu() { calls_until_failure().reset(); }
bool gpu_has_failed() { return calls_until_failure() && *calls_until_failure() <= 0; }

cudaError_t outcome(cudaError_t status) {
  if (gpu_has_failed()) status = cudaErrorIllegalAddress;
  if (calls_until_failure()) --*calls_until_failure();
  if (status != cudaSuccess) last_error() = status;
  return status;
}

}  // namespace tally::cuda::emulation

namespace emulation = tally::cuda::emulation;

const char* cudaGetErrorName(cudaError_t error) { return emulation::text_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return emulation::text_of(error).text; }
cudaError_t cudaGetLastError() { return std::exchange(emulation::last_error(), cudaSuccess); }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = emulation::kVersion;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = emulation::kVersion;
  return cudaSuccess;
}

// There is no driver.
cudaError_t cudaGetDriverEntryPointByVersion(const char* /*symbol*/, void** function,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = nullptr;
  *result = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return emulation::check_device(device); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {.name = {}, .uuid = {}, .major = 9, .minor = 0};
  emulation::kName.copy(properties->name, sizeof(properties->name) - 1);
  return emulation::check_device(device);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (attribute != cudaDevAttrMultiProcessorCount) return emulation::outcome(cudaErrorInvalidValue);
  *value = emulation::kMultiprocessors;
  return emulation::check_device(device);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  if (bytes <= static_cast<int>(emulation::kBusId.size()))
    return emulation::outcome(cudaErrorInvalidValue);
  text[emulation::kBusId.copy(text, emulation::kBusId.size())] = 0;
  return emulation::check_device(device);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
