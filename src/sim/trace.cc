#include "sim/trace.h"

#include <algorithm>

#include "base/check.h"
#include "base/errors.h"
#include "collective/algorithms.h"

namespace tally::sim {
namespace {

using collective::ActionKind;
using collective::Parts;
using collective::Schedule;
using collective::Vector;

constexpr std::uint32_t kMessageBits = 28;

using Allreduce = Schedule (*)(const Vector&, Rank, int);

std::vector<Rank> ranks_from(Rank first, int stride, int count) {
  std::vector<Rank> ranks(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) ranks[static_cast<std::size_t>(i)] = first + i * stride;
  return ranks;
}

std::vector<Trace> trace_flat(const Workload& workload, Allreduce allreduce) {
  const Vector vector{.count = workload.bytes, .element_bytes = 1};
  const std::vector<Rank> group = ranks_from(0, 1, workload.ranks);
  std::vector<Trace> traces(group.size());
  for (const Rank rank : group) {
    traces[static_cast<std::size_t>(rank)].append(allreduce(vector, rank, workload.ranks), group);
  }
  return traces;
}

std::vector<Trace> trace_hierarchical(const Workload& workload) {
  const int local = workload.local_ranks;
  const int hosts = workload.ranks / local;
  const Parts shards = Parts::split({.count = workload.bytes, .element_bytes = 1}, local);
  std::vector<Trace> traces(static_cast<std::size_t>(workload.ranks));
  for (Rank rank = 0; rank < workload.ranks; ++rank) {
    const int inside = rank % local;  // this rank's number on its host
    const int host = rank / local;
    const std::vector<Rank> neighbours = ranks_from(host * local, 1, local);
    const std::vector<Rank> counterparts = ranks_from(inside, local, hosts);
    const Vector shard{.count = shards.block(collective::Buffer::kOutput, inside).bytes,
                       .element_bytes = 1};
    Trace& trace = traces[static_cast<std::size_t>(rank)];
    trace.append(collective::ring_reduce_scatter(shards, inside), neighbours, 0);
    trace.append(collective::ring_allreduce(shard, host, hosts), counterparts, 1);
    trace.append(collective::ring_allgather(shards, inside), neighbours, 2);
  }
  return traces;
}

}  // namespace

void Trace::append(const Schedule& schedule, std::span<const Rank> group, std::uint32_t phase) {
  TALLY_CHECK(phase < (1U << (32 - kMessageBits)));
  for (std::size_t i = 0; i < schedule.step_count(); ++i) {
    const std::size_t begin = actions_.size();
    for (const collective::Action& action : schedule.step(i)) {
      if (action.peer == kNoRank) continue;
      TALLY_CHECK(action.message < (1U << kMessageBits));
      TraceAction& added = actions_.emplace_back();
      added.peer = group[static_cast<std::size_t>(action.peer)];
      added.message = (phase << kMessageBits) | action.message;
      added.kind = action.kind == ActionKind::kSend      ? TraceAction::Kind::kSend
                   : action.kind == ActionKind::kReceive ? TraceAction::Kind::kReceive
                                                         : TraceAction::Kind::kCombine;
      added.bytes = action.block.bytes;
    }
    // Steps without messages take no time.
    if (actions_.size() > begin) step_begins_.push_back(static_cast<std::uint32_t>(begin));
  }
  actions_.shrink_to_fit();
}

std::span<const TraceAction> Trace::step(std::size_t index) const {
  const std::size_t begin = step_begins_[index];
  const std::size_t end =
      index + 1 < step_begins_.size() ? step_begins_[index + 1] : actions_.size();
  return std::span(actions_).subspan(begin, end - begin);
}

std::size_t Trace::messages_sent() const {
  return static_cast<std::size_t>(std::count_if(
      actions_.begin(), actions_.end(),
      [](const TraceAction& action) { return action.kind == TraceAction::Kind::kSend; }));
}

std::size_t Trace::bytes_sent() const {
  std::size_t sum = 0;
  for (const TraceAction& action : actions_) {
    if (action.kind == TraceAction::Kind::kSend) sum += action.bytes;
  }
  return sum;
}

Result<std::vector<Trace>> trace_allreduce(const Workload& workload) {
  if (workload.ranks < 1) {
    return invalid("{} ranks", workload.ranks);
  }
  switch (workload.algorithm) {
    case Algorithm::kRing:
      return trace_flat(workload, collective::ring_allreduce);
    case Algorithm::kHalvingDoubling:
      return trace_flat(workload, collective::halving_doubling_allreduce);
    case Algorithm::kTree:
      return trace_flat(workload, collective::tree_allreduce);
    case Algorithm::kHierarchical:
      if (workload.local_ranks < 1 || workload.ranks % workload.local_ranks != 0) {
        return invalid("{} ranks do not fill hosts of {}", workload.ranks, workload.local_ranks);
      }
      return trace_hierarchical(workload);
    default:
      return invalid("only ring, halving-doubling, tree and hierarchical are simulated");
  }
}

}  // namespace tally::sim
