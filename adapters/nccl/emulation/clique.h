#pragma once
#include <nccl.h>

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "tally/types.h"

namespace tally::nccl::emulation {

// One call of NCCL on one rank.
struct Call {
  enum class Kind : std::uint8_t {
    kAllReduce,
    kReduceScatter,
    kAllGather,
    kBroadcast,
    kReduce,
    kSend,
    kReceive,
  };
  Kind kind = Kind::kAllReduce;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int peer = 0;  // or the root

  bool is_message() const { return kind == Kind::kSend || kind == Kind::kReceive; }
};

// The ranks of one communicator, which are threads of this process, and their operations under way.
// Collectives match by their order on each rank, messages by their order between two ranks.
class Clique final {
 public:
  explicit Clique(int size);

  int size() const { return size_; }
  // A rank connects. All are there when each has done so once.
  void enter();
  bool is_complete();
  // Carries the calls of a group out, together with the other ranks; returns when they are done
  // here, or when the rank is aborted. A rank has one call of run() under way at most.
  void run(int rank, const std::vector<Call>& calls);
  // The rank's operations end, and it takes part in no more.
  void abort(int rank);
  // The error of an operation under way: another rank is gone, or calls something else.
  ncclResult_t error();

 private:
  // A call in its place, until it is done.
  struct Entry {
    const Call* call = nullptr;
    bool is_done = false;
  };
  struct Member {
    std::deque<Entry*> collectives;
    std::map<int, std::deque<Entry*>> sends;     // by receiver
    std::map<int, std::deque<Entry*>> receives;  // by sender
    bool is_running = false;
    bool is_aborted = false;
  };

  void advance() TALLY_REQUIRES(mutex_);
  bool advance_collective() TALLY_REQUIRES(mutex_);
  bool advance_messages(int from, int to) TALLY_REQUIRES(mutex_);
  void carry_out(const std::vector<const Call*>& calls) TALLY_REQUIRES(mutex_);

  const int size_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Member> members_ TALLY_GUARDED_BY(mutex_);
  int entered_ TALLY_GUARDED_BY(mutex_) = 0;
  ncclResult_t error_ TALLY_GUARDED_BY(mutex_) = ncclSuccess;
};

}  // namespace tally::nccl::emulation
