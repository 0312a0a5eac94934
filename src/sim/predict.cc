#include "sim/predict.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <queue>
#include <vector>

#include "base/check.h"
#include "base/errors.h"
#include "sim/trace.h"

namespace tally::sim {
namespace {

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
