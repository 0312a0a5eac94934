#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

#include "base/errors.h"
#include "base/rng.h"
#include "exchange/device/device_exchange.h"
#include "exchange/device/host_device.h"
#include "exchange/group/group_exchange.h"
#include "sim/exchange_step.h"
#include "sim/group_run.h"

namespace tally::sim {
namespace {

using namespace std::chrono_literals;
using exchange::DeviceExchange;
using exchange::Exchange;
using exchange::GroupExchange;
using exchange::GroupUpdate;

// A rank of a run, with its exchange.
class Trainer {
 public:
  Trainer(Member& me, const GroupRun& run, TrainedRank& trained)
      : me_(me),
        run_(run),
        options_(model_of(run.plan)),
        rng_(run.seed * 1000 + static_cast<std::uint64_t>(me.rank())),
        trained_(trained) {
    options_.clock = &me.clock();
    for (const OptimizerSpec& spec : options_.optimizers) rates_.push_back(spec.rate);
    for (const std::size_t p : {1, 4, 2, 0, 3})
      if (p < options_.parameters.size()) order_.push_back(p);
  }

  Result<void> train() {
    std::unique_ptr<Communicator> rest;  // without the victim
    std::unique_ptr<Communicator> last;  // without `second` as well
    const std::vector<Rank> lost = {run_.victim};
    const std::vector<Rank> both = {run_.victim, run_.second};
    if (run_.victim != kNoRank) {
      TALLY_TRY(rest, all_but(lost));
    }
    if (run_.second != kNoRank) {
      TALLY_TRY(last, all_but(both));
    }
    Result<void> outcome = noted(make());
    if (outcome) outcome = noted(run_.drains ? drain() : take_steps(run_.steps));
    if (run_.reforms && rest && !is_dead()) outcome = noted(recover(*rest, lost, outcome));
    if (run_.reforms && last && !is_dead()) outcome = noted(recover(*last, both, outcome));
    note();
    trained_.ended = me_.clock().now();
    exchange_.reset();
    trained_.frames_at_end = frames_sent();
    // Stay until all ranks know of the fault: a rank that leaves is a loss of its own.
    if (!outcome && !is_dead()) me_.sleep(4 * kTimeout);
    return outcome;
  }

 private:
  bool is_dead() const {
    return me_.rank() == run_.victim && run_.killed_at && me_.clock().now() >= *run_.killed_at;
  }
  std::uint64_t frames_sent() const { return me_.transport().counters().frames_sent; }
  Result<std::unique_ptr<Communicator>> all_but(const std::vector<Rank>& lost) {
    const bool is_lost = std::find(lost.begin(), lost.end(), me_.rank()) != lost.end();
    return me_.communicator().split(is_lost ? -1 : 0, me_.rank(), me_.deadline());
  }
  Result<void> noted(Result<void> outcome) {
    if (!outcome) trained_.errors.push_back(outcome.error());
    return outcome;
  }

  // Virtual time passes as for a computation.
  Result<void> compute(Duration duration) {
    exchange::Background* const background = exchange_->background();
    const Deadline by = me_.clock().after(duration);
    do {
      me_.sleep(std::min<Duration>(by.remaining(me_.clock().now()), 100us));
      if (is_dead()) return make_error(ErrorCode::kClosed, me_.rank(), "killed by the script");
      // complete() returns an error of the background.
      if (background != nullptr) (void)background->serve_once();
    } while (!by.passed(me_.clock().now()));
    return {};
  }

  Result<void> make() {
    trained_.make_frames.begin = frames_sent();
    const auto initial = [this](std::size_t p, std::span<std::byte> values) {
      const Values all = exchange::initial_values(options_);
      std::memcpy(values.data(), all[p].data(), values.size());
    };
    if (run_.plan.on_device) {
      TALLY_TRY(exchange_, DeviceExchange::make(me_.communicator(),
                                                {.update = options_,
                                                 .device = exchange::host_device(),
                                                 .make_sum = exchange::host_sum_maker(),
                                                 .initial = initial},
                                                me_.deadline()));
    } else {
      TALLY_TRY(exchange_, GroupExchange::make(me_.communicator(),
                                               {.update = options_,
                                                .rules = rules_of(run_.plan, me_.size()),
                                                .initial = initial,
                                                .pause = [this] { me_.sleep(200us); }},
                                               me_.deadline()));
    }
    trained_.began = me_.clock().now();
    trained_.make_frames.end = frames_sent();
    return {};
  }

  Result<void> take_steps(std::uint64_t until) {
    while (exchange_->steps() < until) TALLY_TRY(take_step());
    std::vector<double> present = {1};
    TALLY_TRY(exchange_->meetings().meet(present));
    const std::size_t lost = trained_.reforms.empty() ? 0 : trained_.reforms.back().lost.size();
    EXPECT_EQ(present[0], me_.size() - static_cast<int>(lost));
    return {};
  }

  Result<void> drain() {
    for (int step = 0; step < me_.rank() + 2; ++step) TALLY_TRY(take_step());
    return exchange_->drain({.rates = rates_});
  }

  Result<void> take_step() {
    TALLY_TRY(const exchange::StepChoice choice, exchange_->begin());
    const std::uint64_t counted = exchange_->statistics().staleness.total();
    exchange::StepContribution own{.rates = rates_};
    if (choice.computes) own.samples = own.weight = samples_of(me_.rank(), choice.version);
    const Duration straggling = me_.rank() == run_.straggler ? kStraggling : 0ms;
    const auto write_gradient = [&](std::size_t p) -> const std::byte* {
      const std::vector<float>& gradient = gradient_of(options_, p, me_.rank(), choice.version);
      const std::span<std::byte> to = exchange_->gradient(p);
      if (exchange_->on_device()) return reinterpret_cast<const std::byte*>(gradient.data());
      std::memcpy(to.data(), gradient.data(), to.size());
      return nullptr;
    };
    TALLY_TRY(compute_gradients(*exchange_,
                                {.rng = rng_,
                                 .compute = [this](Duration duration) { return compute(duration); },
                                 .before = std::chrono::microseconds(rng_.below(300)) + straggling,
                                 .between = 50us,
                                 .order = order_,
                                 .write_gradient = write_gradient},
                                own));
    trained_.open.push_back(choice.version);
    TALLY_TRY(exchange_->complete(own));
    trained_.open.pop_back();
    if (exchange_->statistics().staleness.total() > counted)
      trained_.counted.push_back(choice.version);
    return {};
  }

  // If any rank of `rest` has failed, all of them continue without the lost ranks.
  Result<void> recover(Communicator& rest, const std::vector<Rank>& lost,
                       const Result<void>& outcome) {
    std::vector<std::int32_t> facts = {outcome ? 0 : 1, exchange_ ? 0 : 1};
    TALLY_TRY(rest.allreduce(std::span(facts), ReduceOp::kMax));
    if (facts[0] == 0 || facts[1] == 1) return outcome;
    const bool is_first = lost.size() == 1;
    if (is_first) trained_.reform_frames.begin = frames_sent();
    TALLY_TRY(exchange_->reform(rest));
    if (is_first) trained_.reform_frames.end = frames_sent();
    trained_.reforms.push_back({.version = exchange_->steps(), .lost = lost});
    return take_steps(2 * run_.steps);
  }

  void note() {
    if (!exchange_) return;
    trained_.exists = true;
    trained_.steps = exchange_->steps();
    trained_.values.clear();
    for (std::size_t p = 0; p < options_.parameters.size(); ++p) {
      trained_.values.emplace_back(options_.parameters[p].count());
      std::memcpy(trained_.values[p].data(), exchange_->values(p).data(),
                  exchange_->values(p).size());
    }
  }

  Member& me_;
  const GroupRun& run_;
  GroupUpdate::Options options_;
  Rng rng_;
  TrainedRank& trained_;
  std::vector<double> rates_;
  std::vector<std::size_t> order_;  // of gradients; another one than that of the first buckets
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace

std::string name_of(const GroupRun& run) {
  return fmt::format("{}: {} ranks, {} to a host, seed {}, fault {}, victim {}", run.plan.name,
                     run.place.ranks, run.place.per_host, run.seed, static_cast<int>(run.fault),
                     run.victim);
}

GroupOutcome run_group(const GroupRun& run) {
  Rng rng(run.seed * 31 + 7);
  Cluster cluster({.ranks = run.place.ranks,
                   .ranks_per_host = run.place.per_host,
                   .seed = run.seed,
                   .conditions = {.jitter = 30us},
                   .timeout = kTimeout});
  const TimePoint from = 500us + std::chrono::microseconds(rng.below(5000));
  const Rank other = (run.victim + 1) % run.place.ranks;
  if (run.fault == Fault::kKill)
    cluster.kill({.rank = run.victim, .before_frame = run.killed_before, .at = run.killed_at});
  if (run.second_killed_before)
    cluster.kill({.rank = run.second, .before_frame = run.second_killed_before});
  if (run.fault == Fault::kDelay)
    cluster.delay({.from = run.victim, .to = other, .extra = 20ms, .since = from});
  if (run.fault == Fault::kStop)
    cluster.stop({.rank = run.victim, .from = from, .until = from + kTimeout / 4});
  if (run.fault == Fault::kLongStop)
    cluster.stop({.rank = run.victim, .from = from, .until = from + 3 * kTimeout});
  GroupOutcome outcome{.ranks =
                           std::vector<TrainedRank>(static_cast<std::size_t>(run.place.ranks))};
  outcome.cluster = cluster.run([&](Member& me) {
    return Trainer(me, run, outcome.ranks[static_cast<std::size_t>(me.rank())]).train();
  });
  return outcome;
}

GroupRun script_of(const GroupCase& one, std::uint64_t seed) {
  Rng rng(seed * 77 + 5);
  static const std::vector<Place> places = {{3, 4}, {3, 1}, {4, 2}, {2, 2}, {5, 2}, {6, 3}, {2, 1}};
  GroupRun run{.plan = one, .place = places[seed % places.size()], .seed = seed};
  run.victim = static_cast<Rank>(rng.below(static_cast<std::uint64_t>(run.place.ranks)));
  return run;
}

void kill_in_a_step(GroupRun& run) {
  static std::map<std::tuple<std::string, int, int>, GroupOutcome> known;
  const auto [found, is_new] =
      known.try_emplace({run.plan.name, run.place.ranks, run.place.per_host});
  if (is_new) found->second = run_group(run);
  const GroupOutcome& calm = found->second;
  Rng rng(run.seed * 13 + 1);
  const TrainedRank& victim = calm.ranks[static_cast<std::size_t>(run.victim)];
  run.fault = Fault::kKill;
  const std::uint64_t frames = victim.frames_at_end - victim.make_frames.end;
  if (frames > 0 && rng.below(3) != 0) {
    run.killed_before = victim.make_frames.end + rng.below(frames);
  } else {
    const auto time = static_cast<std::uint64_t>((calm.cluster.ended - victim.began).count());
    run.killed_at = victim.began + Duration(static_cast<Duration::rep>(rng.below(time)));
  }
}

}  // namespace tally::sim
