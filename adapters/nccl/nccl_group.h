#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/nccl/nccl_library.h"
#include "collective/external.h"
#include "tally/communicator.h"

namespace tally::nccl {

// The place of a rank, as NCCL sees it.
struct GpuPlace {
  std::string host;  // NCCL_HOSTID, or the running system
  std::string gpu;   // the PCI bus id

  friend bool operator==(const GpuPlace&, const GpuPlace&) = default;
};

// kInvalid if two ranks have the same GPU, which NCCL refuses.
Result<void> check_one_gpu_each(const std::vector<GpuPlace>& places);

// An NCCL communicator of the ranks of a Tally communicator, and the stream of its operations. NCCL
// has no deadlines and does not name a rank that failed. Every wait for it is therefore an
// operation of watched(), a communicator of Tally's: when a rank is lost, stays away or calls
// another operation, this operation fails with an error that names the rank, and its owner aborts
// NCCL. No call of NCCL waits for other ranks. Threads: one at a time, except for close() and
// abort() of the communicators.
class NcclGroup final {
 public:
  // Called by all ranks of `control`, of which the result is independent afterwards. `device` is
  // the number of this rank's GPU. kInvalid if a rank has no NCCL, or if ranks share a GPU.
  static Result<std::unique_ptr<NcclGroup>> make(Communicator& control, int device, Deadline by);
  // Waits briefly for the other ranks, which may still receive data.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  Rank rank() const { return rank_; }
  int size() const { return size_; }
  int device() const { return device_; }
  const Nccl& nccl() const { return nccl_; }
  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }

  // Communicators of Tally's of the same ranks. The collectives of watched(), except for barriers,
  // are those that the argument of carry_out() makes; host() moves ordinary memory.
  Communicator& watched() { return *watched_; }
  Communicator& host() { return *host_; }
  // Before the next collective of watched().
  void carry_out(collective::MakeExternal make) { make_ = std::move(make); }

  // After a call of NCCL that returned `code`: whether NCCL has done its part, so that the work is
  // on the stream and the next call may follow. An error of NCCL is held back for a moment, in
  // which watched() may find the rank that caused it.
  Result<bool> settled(ncclResult_t code = ncclSuccess);
  // Whether the stream has done the work before the event.
  Result<bool> passed(cudaEvent_t event);
  // Ends all operations of NCCL on this rank, for good, and those of host() on all ranks. Waits up
  // to 10 s until they use no memory any more, and logs an error if they still do. Does nothing
  // when called again.
  void abort();
  // The same without waiting. NCCL may end the operations of this group only together with those of
  // other groups of the GPU: begin to abort all of them, then abort() each.
  void begin_abort();
  // Keeps memory that NCCL uses: until the group is gone, and for good if NCCL has not ended by
  // then, because to free it would wait for NCCL.
  void keep(std::shared_ptr<const void> memory) { kept_.push_back(std::move(memory)); }

 private:
  class Init;

  NcclGroup(const Nccl& nccl, Communicator& control, int device);
  Result<void> create_stream();
  Result<void> connect(Communicator& control, Deadline by);
  Result<bool> held() const;
  void wait_for_others();
  void begin_end();
  void await_end();

  const Nccl& nccl_;
  const Rank rank_;
  const int size_;
  const int device_;
  collective::MakeExternal make_;
  ncclUniqueId id_{};
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::optional<Error> trouble_;  // the first error of NCCL
  TimePoint trouble_since_{};
  std::future<void> aborted_;  // ncclCommAbort() has returned
  Deadline end_by_ = Deadline::never();
  bool is_stuck_ = false;  // NCCL has not ended
  std::vector<std::shared_ptr<const void>> kept_;
  std::unique_ptr<Communicator> host_;
  std::unique_ptr<Communicator> watched_;
};

// "the GPU failed while `doing`: ...". kExhausted if its memory is full, else kSystem.
Error cuda_error(cudaError_t status, std::string_view doing);
Result<void> check(cudaError_t status, std::string_view doing);

}  // namespace tally::nccl
