#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "adapters/cuda/cuda_device.h"

namespace tally::nccl {

class NcclQueue;

// The order in which NCCL gets the work of all queues of a device: that of their pushes, which is
// the same on all ranks. Operations of several NCCL communicators of the same GPUs can wait for
// each other forever if ranks issue them in different orders: a call of NCCL may wait for the GPU,
// and with it for an operation that another rank issues only after this call. Threads: calls must
// not overlap, like those of the device.
class NcclOrder final {
 public:
  // All queues of the device share one. CUDA devices know nothing of NCCL, so the orders are found
  // by the address of the device, which outlives its queues.
  static std::shared_ptr<NcclOrder> of(const cuda::CudaDevice& device);

  // The queue is one of the device's, until it leaves.
  void join(NcclQueue& queue) { queues_.push_back(&queue); }
  void leave(NcclQueue& queue) {
    remove(queue);
    std::erase(queues_, &queue);
  }

  // The queue has one more piece of work.
  void push(NcclQueue& queue) { turns_.push_back(&queue); }
  // Gives NCCL what it can take. A queue with an error is told, and the others go on.
  void advance();
  // The queue has no more work to issue.
  void remove(NcclQueue& queue) { std::erase(turns_, &queue); }
  // Ends all queues on all ranks. NCCL may end the operations of one only together with those of
  // the others, with which they share the GPU.
  void abort(const Error& why);

 private:
  std::vector<NcclQueue*> queues_;
  std::deque<NcclQueue*> turns_;  // the queue of each piece that NCCL has not taken yet
};

}  // namespace tally::nccl
