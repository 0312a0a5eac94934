#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "adapters/cuda/cuda_device.h"
#include "adapters/nccl/nccl_group.h"
#include "adapters/nccl/nccl_order.h"

namespace tally::nccl {

// Work that NCCL does beside a device's own: each piece begins after the work that the device had
// when the piece was pushed. All queues of a device are of the same ranks and push in the same
// order on all of them, and NCCL gets the pieces in this order. finish() waits for those of one
// queue. An error of one queue ends all queues of the device. Threads: calls of all queues of a
// device must not overlap.
class NcclQueue final {
 public:
  // A piece of work: gives NCCL one call or group of calls.
  struct Work {
    // Whether issue() may be called now; asked again later if not. Empty: always.
    std::function<Result<bool>()> ready;
    std::function<ncclResult_t()> issue;
  };

  static Result<std::unique_ptr<NcclQueue>> make(Communicator& world, cuda::CudaDevice& device,
                                                 Deadline by);
  ~NcclQueue();
  NcclQueue(const NcclQueue&) = delete;
  NcclQueue& operator=(const NcclQueue&) = delete;

  NcclGroup& group() { return *group_; }
  // Waits neither for the GPU nor for other ranks.
  Result<void> push(Work work);
  // Returns when all work is done on this rank. `all` describes it, for the comparison with the
  // other ranks and for errors: an all-reduce of that many elements, say. After an error NCCL uses
  // no memory any more, and every later call returns the error.
  Result<void> finish(const Request& all);
  // Ends the queues of the device on all ranks: those that wait in finish() return this error.
  void abort(const Error& why) { order_->abort(why); }

  // For NcclOrder. Gives NCCL the next piece; true when NCCL has done its part. False: later.
  Result<bool> issue_next();
  // finish() returns the error, or that of the rank that caused it.
  void note_trouble(const Error& error);
  // Ends the queue on all ranks, and does not wait for NCCL to end here.
  void begin_abort(const Error& why);

 private:
  class Finish;
  struct Item {
    Work work;
    cudaEvent_t before = nullptr;  // after the work that the device had
  };

  NcclQueue(cuda::CudaDevice& device, std::unique_ptr<NcclGroup> group)
      : device_(device), order_(NcclOrder::of(device)), group_(std::move(group)) {
    order_->join(*this);
  }
  Result<bool> advance();
  Result<cudaEvent_t> event();

  cuda::CudaDevice& device_;
  const std::shared_ptr<NcclOrder> order_;  // shared with the other queues of the device
  const std::unique_ptr<NcclGroup> group_;
  std::deque<Item> waiting_;
  bool is_taking_ = false;           // NCCL has not done its part of the last call
  bool is_marked_ = false;           // done_ is recorded
  std::vector<cudaEvent_t> events_;  // that no item uses
  std::vector<cudaEvent_t> in_use_;  // of items that were issued since the last finish()
  cudaEvent_t done_ = nullptr;
  std::optional<Error> trouble_;  // of a piece, until finish() finds its cause
  std::optional<Error> failure_;
};

}  // namespace tally::nccl
