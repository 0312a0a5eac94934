#include "sim/predict.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <queue>
#include <span>
#include <vector>

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
  void append(const Schedule& schedule, std::span<const Rank> group, std::uint32_t phase = 0) {
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
        if (action.kind != ActionKind::kSend) continue;
        ++messages_sent_;
        bytes_sent_ += action.block.bytes;
      }
      // Steps without messages take no time.
      if (actions_.size() > begin) step_begins_.push_back(static_cast<std::uint32_t>(begin));
    }
    actions_.shrink_to_fit();
  }

  std::size_t step_count() const { return step_begins_.size(); }
  std::span<const TraceAction> step(std::size_t index) const {
    const std::size_t begin = step_begins_[index];
    const std::size_t end =
        index + 1 < step_begins_.size() ? step_begins_[index + 1] : actions_.size();
    return std::span(actions_).subspan(begin, end - begin);
  }
  std::size_t messages_sent() const { return messages_sent_; }
  std::size_t bytes_sent() const { return bytes_sent_; }

 private:
  std::vector<TraceAction> actions_;
  std::vector<std::uint32_t> step_begins_;
  std::size_t messages_sent_ = 0;
  std::size_t bytes_sent_ = 0;
};

struct Workload {
  Algorithm algorithm = Algorithm::kRing;
  int ranks = 1;
  std::size_t bytes = 0;
  int local_ranks = 1;  // kHierarchical only; divides ranks
};

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

// The traces of all ranks for an all-reduce. kHierarchical: a ring reduce-scatter inside each host,
// for each shard a ring all-reduce across hosts, a ring all-gather inside each host. kInvalid for
// algorithms that send no messages, and for hosts that are not full.
Result<std::vector<Trace>> trace_allreduce(const Workload& workload) {
  if (workload.ranks < 1) return invalid("{} ranks", workload.ranks);
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

// Seconds as double: nanoseconds would accumulate rounding errors over thousands of steps.
using Seconds = double;

Seconds seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

struct Event {
  Seconds when = 0;
  std::uint64_t number = 0;  // events of one moment happen in the order in which they were foreseen
  Rank rank = kNoRank;       // where it happens
  Rank from = kNoRank;       // kNoRank: the rank begins its next step; else a message arrives
  std::uint32_t message = 0;
  std::uint64_t bytes = 0;

  bool operator>(const Event& other) const {
    return when != other.when ? when > other.when : number > other.number;
  }
};

class Prophet {
 public:
  Prophet(const std::vector<Trace>& traces, const Model& model) : traces_(traces), model_(model) {
    ranks_.resize(traces.size());
  }

  Seconds run() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      foresee({.when = 0, .rank = static_cast<Rank>(rank)});
    }
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.from == kNoRank) {
        begin_step(event);
      } else {
        arrive(event);
      }
    }
    Seconds end = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      TALLY_CHECK(ranks_[rank].next_step == traces_[rank].step_count());
      TALLY_CHECK(ranks_[rank].awaited == 0 && ranks_[rank].early.empty());
      end = std::max(end, ranks_[rank].step_end);
    }
    return end;
  }

 private:
  // When a rank's own end of a link is free again, by direction.
  struct Port {
    Seconds out_free = 0;
    Seconds in_free = 0;
  };
  struct Early {
    Rank from = kNoRank;
    std::uint32_t message = 0;
    Seconds delivered = 0;
  };
  struct RankState {
    std::size_t next_step = 0;
    int awaited = 0;       // messages that the current step still needs
    Seconds step_end = 0;  // as far as is known
    Port network;
    Port local;
    std::vector<Early> early;  // arrived before the step that needs them
  };

  RankState& state(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void foresee(Event event) {
    event.number = foreseen_++;
    events_.push(event);
  }

  bool is_local(Rank a, Rank b) const { return a / model_.local_ranks == b / model_.local_ranks; }
  const Link& link(Rank a, Rank b) const { return is_local(a, b) ? model_.local : model_.network; }
  Port& port(Rank at, Rank peer) {
    return is_local(at, peer) ? state(at).local : state(at).network;
  }

  void begin_step(const Event& event) {
    RankState& mine = state(event.rank);
    const Trace& trace = traces_[static_cast<std::size_t>(event.rank)];
    if (mine.next_step == trace.step_count()) return;
    for (const TraceAction& action : trace.step(mine.next_step++)) {
      if (action.kind == TraceAction::Kind::kSend) {
        send(event.rank, event.when, action);
      } else {
        receive(event.rank, event.when, action);
      }
    }
    end_step_if_complete(event.rank);
  }

  void send(Rank from, Seconds now, const TraceAction& action) {
    const Link& on = link(from, action.peer);
    Port& out = port(from, action.peer);
    const Seconds start = std::max(now, out.out_free);
    out.out_free = start + static_cast<double>(action.bytes) / on.bytes_per_second;
    state(from).step_end = std::max(state(from).step_end, out.out_free);
    foresee({.when = start + seconds(on.latency),
             .rank = action.peer,
             .from = from,
             .message = action.message,
             .bytes = action.bytes});
  }

  void receive(Rank rank, Seconds now, const TraceAction& action) {
    RankState& mine = state(rank);
    const auto found = std::find_if(mine.early.begin(), mine.early.end(), [&](const Early& early) {
      return early.from == action.peer && early.message == action.message;
    });
    if (found == mine.early.end()) {
      ++mine.awaited;
      return;
    }
    take(rank, std::max(now, found->delivered), action);
    *found = mine.early.back();
    mine.early.pop_back();
  }

  void arrive(const Event& event) {
    RankState& mine = state(event.rank);
    Port& in = port(event.rank, event.from);
    const Seconds start = std::max(event.when, in.in_free);
    in.in_free =
        start + static_cast<double>(event.bytes) / link(event.rank, event.from).bytes_per_second;
    if (mine.awaited > 0) {
      const Trace& trace = traces_[static_cast<std::size_t>(event.rank)];
      for (const TraceAction& action : trace.step(mine.next_step - 1)) {
        if (action.kind == TraceAction::Kind::kSend) continue;
        if (action.peer != event.from || action.message != event.message) continue;
        TALLY_CHECK(action.bytes == event.bytes);
        --mine.awaited;
        take(event.rank, in.in_free, action);
        end_step_if_complete(event.rank);
        return;
      }
    }
    mine.early.push_back({.from = event.from, .message = event.message, .delivered = in.in_free});
  }

  void take(Rank rank, Seconds delivered, const TraceAction& action) {
    const bool combines = action.kind == TraceAction::Kind::kCombine;
    const Seconds added =
        combines ? static_cast<double>(action.bytes) * model_.reduce_seconds_per_byte : 0;
    state(rank).step_end = std::max(state(rank).step_end, delivered + added);
  }

  void end_step_if_complete(Rank rank) {
    if (state(rank).awaited == 0) foresee({.when = state(rank).step_end, .rank = rank});
  }

  const std::vector<Trace>& traces_;
  const Model& model_;
  std::vector<RankState> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t foreseen_ = 0;
};

}  // namespace

Result<Prediction> predict(Algorithm algorithm, int ranks, std::size_t bytes, const Model& model) {
  TALLY_TRY(const std::vector<Trace> traces, trace_allreduce({.algorithm = algorithm,
                                                              .ranks = ranks,
                                                              .bytes = bytes,
                                                              .local_ranks = model.local_ranks}));
  Prediction prediction;
  prediction.time = Duration(std::llround(Prophet(traces, model).run() * 1e9));
  for (const Trace& trace : traces) {
    prediction.steps = std::max(prediction.steps, trace.step_count());
    prediction.messages += trace.messages_sent();
    prediction.bytes_per_rank = std::max(prediction.bytes_per_rank, trace.bytes_sent());
  }
  return prediction;
}

Result<Formula> formula(Algorithm algorithm, int ranks, std::size_t bytes, const Model& model) {
  const double n = ranks;
  const auto m = static_cast<double>(bytes);
  const double a = seconds(model.network.latency);
  const double b = model.network.bytes_per_second;
  const double g = model.reduce_seconds_per_byte;
  const auto in = [&](double time, std::string text, std::string_view adding) {
    if (g > 0) text += adding;
    return Formula{.text = std::move(text), .time = Duration(std::llround(time * 1e9))};
  };
  if (ranks < 1) return invalid("no ranks");
  const auto unsigned_ranks = static_cast<unsigned>(ranks);
  switch (algorithm) {
    case Algorithm::kRing:
      return in(2 * (n - 1) * (a + m / (n * b)) + (n - 1) / n * m * g, "2(N-1)(a + M/(N B))",
                " + (N-1)/N M g");
    case Algorithm::kHalvingDoubling: {
      const double p = std::bit_floor(unsigned_ranks);
      const double core = 2 * std::log2(p) * a + (p - 1) / p * m * (2 / b + g);
      if (p == n) return in(core, "2 log2(N) a + 2(N-1)/N M/B", " + (N-1)/N M g");
      return in(core + 2 * (a + m / b) + m * g, "2(log2(P)+1) a + 2(2P-1)/P M/B",
                " + (2P-1)/P M g");
    }
    case Algorithm::kTree: {
      const double height = std::bit_width(unsigned_ranks - 1);
      return in(height * (2 * (a + m / b) + m * g), "2h(a + M/B)", " + h M g");
    }
    case Algorithm::kHierarchical: {
      if (model.local_ranks < 1 || ranks % model.local_ranks != 0) {
        return invalid("the ranks do not fill their hosts");
      }
      const double l = model.local_ranks;
      const double k = n / l;
      const double inside =
          2 * (l - 1) * (seconds(model.local.latency) + m / (l * model.local.bytes_per_second));
      const double across = 2 * (k - 1) * (a + m / (n * b));
      return in(inside + across + ((l - 1) / l + (k - 1) / n) * m * g,
                "2(L-1)(a' + M/(L B')) + 2(K-1)(a + M/(N B))", " + ((L-1)/L + (K-1)/N) M g");
    }
    default:
      return invalid("no formula for this algorithm");
  }
}

}  // namespace tally::sim
