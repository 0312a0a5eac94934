#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tally/communicator.h"
#include "tally/error.h"

namespace tally::collective {
class Schedule;
}

namespace tally::sim {

// An action that takes time, at a quarter of the size of a schedule's: a ring of 1024 ranks has
// four million actions.
struct TraceAction {
  enum class Kind : std::uint64_t { kSend, kReceive, kCombine };

  Rank peer = kNoRank;
  std::uint32_t message = 0;
  Kind kind : 2 = Kind::kSend;
  std::uint64_t bytes : 62 = 0;
};
static_assert(sizeof(TraceAction) == 16);

// One rank's sends and receives, step by step.
class Trace {
 public:
  // Adds the steps of `schedule`, whose ranks are those in `group`. Messages of different calls are
  // told apart by `phase`, at most 15; a schedule has less than 2^28 messages for each pair.
  void append(const collective::Schedule& schedule, std::span<const Rank> group,
              std::uint32_t phase = 0);

  std::size_t step_count() const { return step_begins_.size(); }
  std::span<const TraceAction> step(std::size_t index) const;
  std::size_t messages_sent() const;
  std::size_t bytes_sent() const;

 private:
  std::vector<TraceAction> actions_;
  std::vector<std::uint32_t> step_begins_;
};

struct Workload {
  Algorithm algorithm = Algorithm::kRing;
  int ranks = 1;
  std::size_t bytes = 0;
  int local_ranks = 1;  // kHierarchical only; divides ranks
};

// The traces of all ranks for an all-reduce. kHierarchical: a ring reduce-scatter inside each host,
// for each shard a ring all-reduce across hosts, a ring all-gather inside each host. kInvalid for
// algorithms that send no messages, and for hosts that are not full.
Result<std::vector<Trace>> trace_allreduce(const Workload& workload);

}  // namespace tally::sim
