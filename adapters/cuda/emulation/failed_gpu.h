#pragma once

namespace tally::cuda::emulation {

// For tests: the GPU fails for the thread that makes this object, after some more calls, and works
// again when the object is gone. Calls of a GPU that has failed return cudaErrorIllegalAddress, and
// give it no work.
class FailedGpu final {
 public:
  explicit FailedGpu(int after_calls = 0);
  ~FailedGpu();
  FailedGpu(const FailedGpu&) = delete;
  FailedGpu& operator=(const FailedGpu&) = delete;
};

bool gpu_has_failed();

}  // namespace tally::cuda::emulation
