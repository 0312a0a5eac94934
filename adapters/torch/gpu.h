#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <torch/torch.h>

#include "exchange/device/device.h"
#include "exchange/device/device_gather.h"
#include "exchange/device/device_sum.h"
#include "tally/torch.h"

namespace tally::adapter {

// Forward and backward passes of one shape, recorded once and replayed. Throws c10::Error.
class StepGraph {
 public:
  virtual ~StepGraph() = default;
  // Until the result is destroyed, work of this thread runs on the stream of the graph: after the
  // work that the thread has given the GPU before, and before what it gives it afterwards.
  // Recording needs a stream of its own, and a backward pass that begins on it.
  virtual std::shared_ptr<void> enter() = 0;
  // Records the work that `work` gives the GPU, without doing it.
  virtual void capture(const std::function<void()>& work) = 0;
  virtual void replay() = 0;
};

// A GPU for which this build has kernels.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual std::shared_ptr<exchange::Device> device() = 0;
  // Lets device() follow the stream that libtorch uses in this thread.
  virtual void follow_stream() = 0;
  // Factories of sums and gathers; device_way.h chooses the way. `on_event`, which may be empty, is
  // called on rank 0 if the way is slower than it could be.
  using Report = std::function<void(const std::string& sentence)>;
  virtual exchange::MakeDeviceSum sums(DeviceSums wanted, Report on_event) = 0;
  virtual exchange::MakeDeviceGather gathers(DeviceSums wanted, Report on_event) = 0;
  virtual std::unique_ptr<StepGraph> make_graph() = 0;
  // The ranks of `control` over the memory of their GPUs. kInvalid if this build has no NCCL.
  virtual Result<std::unique_ptr<Communicator>> communicator(Communicator& control,
                                                             Deadline by) = 0;
};

// Null if this build has no kernels for `device`: gradients then travel through host memory. Throws
// Failure if the GPU cannot be used.
std::unique_ptr<Gpu> open_gpu(const at::Device& device);

}  // namespace tally::adapter
