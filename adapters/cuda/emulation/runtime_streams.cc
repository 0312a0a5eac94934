// Streams and events.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "adapters/cuda/emulation/properties.h"
#include "adapters/cuda/emulation/stream.h"
#include "base/mutex.h"

namespace tally::cuda::emulation {
namespace {

// The events, with what each of them has recorded last: at first nothing.
class Events final {
 public:
  cudaEvent_t create() {
    const MutexLock lock(mutex_);
    const auto handle = reinterpret_cast<cudaEvent_t>(next_handle_++);
    recorded_[handle] = {};
    return handle;
  }
  bool destroy(cudaEvent_t event) {
    const MutexLock lock(mutex_);
    return recorded_.erase(event) == 1;
  }
  bool record(cudaEvent_t event, Point point) {
    const MutexLock lock(mutex_);
    const auto found = recorded_.find(event);
    if (found == recorded_.end()) return false;
    found->second = std::move(point);
    return true;
  }
  std::optional<Point> recorded(cudaEvent_t event) {
    const MutexLock lock(mutex_);
    const auto found = recorded_.find(event);
    if (found == recorded_.end()) return std::nullopt;
    return found->second;
  }

 private:
  Mutex mutex_;
  std::map<cudaEvent_t, Point> recorded_ TALLY_GUARDED_BY(mutex_);
  std::uintptr_t next_handle_ TALLY_GUARDED_BY(mutex_) = 0x100;  // no handle is used again
};
Events& events() {
  static Events all;
  return all;
}

cudaError_t handle_outcome(bool is_known) {
  return outcome(is_known ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace tally::cuda::emulation

namespace emulation = tally::cuda::emulation;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = emulation::streams().create(/*is_blocking=*/true);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = emulation::streams().create((flags & cudaStreamNonBlocking) == 0);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return emulation::handle_outcome(emulation::streams().destroy(stream));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const emulation::Point end = emulation::streams().enqueue(stream, [] {});
  end.wait();
  return emulation::handle_outcome(end.stream != nullptr);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const emulation::Point end = emulation::streams().last(stream);
  if (end.stream == nullptr) return emulation::outcome(cudaErrorInvalidResourceHandle);
  return emulation::outcome(end.is_done() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const std::optional<emulation::Point> point = emulation::events().recorded(event);
  if (!point) return emulation::outcome(cudaErrorInvalidResourceHandle);
  const emulation::Point end =
      emulation::streams().enqueue(stream, [point = *point] { point.wait(); });
  return emulation::handle_outcome(end.stream != nullptr);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const emulation::Point end =
      emulation::streams().enqueue(stream, [function, data] { function(data); });
  return emulation::handle_outcome(end.stream != nullptr);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = emulation::events().create();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return emulation::handle_outcome(emulation::events().destroy(event));
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  emulation::Point end = emulation::streams().enqueue(stream, [] {});
  return emulation::handle_outcome(end.stream != nullptr &&
                                   emulation::events().record(event, std::move(end)));
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::optional<emulation::Point> point = emulation::events().recorded(event);
  if (!point) return emulation::outcome(cudaErrorInvalidResourceHandle);
  return emulation::outcome(point->is_done() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::optional<emulation::Point> point = emulation::events().recorded(event);
  if (point) point->wait();
  return emulation::handle_outcome(point.has_value());
}
