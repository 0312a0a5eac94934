#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/nccl/nccl_group.h"
#include "base/mutex.h"
#include "tally/communicator.h"

namespace tally::nccl {

// A Communicator over memory of GPUs, one GPU for each rank: the pointers of requests are addresses
// on the GPU of this rank, aligned to elements. NCCL moves the data of collectives. Barriers,
// order, deadlines, records and failures are those of Tally's communicators: a rank that is lost,
// stays away or calls another operation is named, and NCCL is aborted.
//
// An operation reads memory after the work that the followed stream has when the operation is
// issued. When run() or a Handle returns, the results are there for all later work of the GPU.
//
// Differences from Tally's own communicators:
//   - Sends and receives travel through ordinary memory and Tally's transports, with tags and order
//     as there. NCCL has no tags, and runs the messages of a communicator one after the other: two
//     ranks that both receive first would wait for each other.
//   - Half types are added in float16 or bfloat16, rounded after each sum.
//   - Sums have the order that NCCL chooses. All ranks get the same bits.
//   - The pieces of kAllToAll with counts are not compared: if a rank sends another number of
//     elements than its peer receives, the operation ends at its deadline, without a culprit.
//   - Communicators that share GPUs are not independent. If several of them have operations at the
//     same time, all ranks issue these in the same order, as NVIDIA asks: a call of NCCL may wait
//     for the GPU.
//   - Any algorithm but kAuto is kInvalid. Memory of ranks is not shared. traffic() counts
//     operations only.
class NcclCommunicator final : public Communicator {
 public:
  // Called by all ranks of `control`, a communicator of Tally's, of which the result is independent
  // afterwards. `device` is the number of this rank's GPU.
  static Result<std::unique_ptr<NcclCommunicator>> make(Communicator& control, int device,
                                                        Deadline by);
  ~NcclCommunicator() override;

  // Operations that are issued from now on wait for the work of this stream. Until the first call
  // it is the default stream. The stream must exist as long as operations are issued.
  void follow(cudaStream_t stream) { followed_ = stream; }

  Rank rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  Result<void> run(const Request& request) override;
  Handle start(const Request& request) override;
  // Memory of the GPU.
  Result<SharedBuffer> allocate(std::size_t bytes) override;
  Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& buffer, Deadline by) override;
  Result<std::unique_ptr<Communicator>> split(int colour, int key, Deadline by) override;
  void close() override;
  void abort(const Error& why) override;
  Traffic traffic() const override;
  std::string recent_operations() const override;

 private:
  explicit NcclCommunicator(std::unique_ptr<NcclGroup> group)
      : device_(group->device()), group_(std::move(group)) {}
  Result<void> create_events();
  Result<void> admit(const Request& request);
  void note(const Result<void>& outcome);
  Result<void> follow_work(cudaStream_t stream);
  Result<void> told(Result<void> outcome);
  // Messages.
  Result<Handle> start_message(const Request& request);
  Result<void> follow_work_by_copies();
  Result<void> clear(void* data, std::size_t bytes);
  Result<bool> try_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
  Result<void> copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                    Deadline by);

  const int device_;  // messages may still arrive while the group ends
  std::unique_ptr<NcclGroup> group_;
  cudaStream_t followed_ = nullptr;
  cudaEvent_t issued_ = nullptr;
  cudaEvent_t done_ = nullptr;
  cudaStream_t copies_ = nullptr;  // of messages
  Mutex copies_mutex_;             // one call gives copies_ work at a time
  Mutex mutex_;
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);  // the first, of all kinds of operations
};

}  // namespace tally::nccl
