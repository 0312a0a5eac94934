#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/rng.h"
#include "exchange/group/encoded_update_test_support.h"
#include "exchange/group/group_exchange.h"
#include "plan/plan.h"
#include "sim/cluster.h"

// The exchange of a trainer with home=group on many ranks, while ranks are lost, slow or stopped.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;
using exchange::GroupExchange;
using exchange::GroupUpdate;
using exchange::StepContribution;
using exchange::Values;

constexpr std::uint64_t kSteps = 4;  // before a reform, and again after it
constexpr Duration kTimeout = 2s;
constexpr Duration kStraggling = 4ms;

struct GroupCase {
  std::string name;
  std::string plan;
  std::string optimizer = "sgd:rate=0.1,momentum=0.9";
  std::optional<double> clip_norm = std::nullopt;

  friend void PrintTo(const GroupCase& one, std::ostream* out) { *out << one.name; }
};

struct Place {
  int ranks = 2;
  int per_host = 1;

  bool is_one_host() const { return ranks <= per_host; }
  // Where ranks do not lie evenly on hosts, each rank acts as a host of its own.
  bool is_even() const { return ranks % per_host == 0; }
};

plan::Plan plan_of(const GroupCase& one) {
  const auto plan = plan::parse_plan(one.plan);
  EXPECT_TRUE(plan.has_value()) << one.plan;
  return plan ? *plan : plan::Plan{};
}

// Parameters that are tiny, cross blocks, or share a bucket.
GroupUpdate::Options model_of(const GroupCase& one) {
  const plan::Plan plan = plan_of(one);
  GroupUpdate::Options options{.bucket_bytes = 8 << 10,
                               .clip_norm = one.clip_norm,
                               .codec = plan.codec,
                               .by_priority = plan.schedule == plan::Schedule::kPriority,
                               .bytes_in_flight = 16 << 10,
                               .seed = 7};
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{17}, {30, 40}, {5000}, {3, 5}, {8, 100}})
    options.parameters.push_back(
        {.name = fmt::format("p{}", options.parameters.size()), .shape = shape});
  options.parameters[1].group = 1;
  const OptimizerSpec spec = *parse_optimizer(one.optimizer);
  OptimizerSpec other = spec;
  other.rate *= 0.5;
  auto groups = split_groups(options.codec, {spec, other}, options.parameters);
  EXPECT_TRUE(groups.has_value());
  options.optimizers = groups->optimizers;
  options.senders = groups->senders;
  return options;
}

policy::Rules rules_of(const GroupCase& one, int workers) {
  const auto rules = policy::rules_of(plan_of(one), workers, 3);
  EXPECT_TRUE(rules.has_value()) << one.plan;
  return rules ? *rules : policy::Rules{};
}

double samples_of(Rank rank, std::uint64_t version) {
  return exchange::Course().samples(rank, static_cast<int>(version));
}

// The gradient of a rank at a version. One rank runs at a time, so all may use one store.
const std::vector<float>& gradient_of(const GroupUpdate::Options& options, std::size_t parameter,
                                      Rank rank, std::uint64_t version) {
  static std::map<std::tuple<std::size_t, Rank, std::uint64_t>, std::vector<float>> known;
  std::vector<float>& values = known[{parameter, rank, version}];
  if (!values.empty()) return values;
  for (std::size_t i = 0; i < options.parameters[parameter].count(); ++i)
    values.push_back(exchange::gradient_value(parameter, i, static_cast<int>(version), rank));
  return values;
}

double norm_of(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

// All updates without a codec in one place: sums the gradients of whole parameters in the order of
// ranks.
class Unsharded {
 public:
  explicit Unsharded(const GroupUpdate::Options& options)
      : options_(options), values_(exchange::initial_values(options)) {
    state_.resize(2, values_);
    for (Values& array : state_)
      for (std::size_t p = 0; p < array.size(); ++p)
        std::fill(array[p].begin(), array[p].end(),
                  static_cast<float>(optimizer::initial_state(spec(p))));
  }

  void step(const std::vector<Rank>& ranks) {
    double total = 0;
    for (const Rank rank : ranks) total += samples_of(rank, version_);
    Values means = values_;
    double squares = 0;
    for (std::size_t p = 0; p < means.size(); ++p) {
      std::vector<const void*> inputs;
      std::vector<float> weights;
      for (const Rank rank : ranks) {
        inputs.push_back(gradient_of(options_, p, rank, version_).data());
        weights.push_back(static_cast<float>(samples_of(rank, version_) / total));
      }
      kernel::weighted_sum_reference(DataType::kFloat32, inputs, weights, means[p].data(),
                                     means[p].size());
      squares += norm_of(means[p]) * norm_of(means[p]);
    }
    if (options_.clip_norm) {
      const double factor = std::min(1.0, *options_.clip_norm / (std::sqrt(squares) + 1e-6));
      for (std::vector<float>& mean : means)
        for (float& value : mean) value *= static_cast<float>(factor);
    }
    ++version_;
    for (std::size_t p = 0; p < means.size(); ++p) update(p, means[p]);
  }
  const Values& values() const { return values_; }

 private:
  const OptimizerSpec& spec(std::size_t p) const {
    return options_.optimizers[options_.parameters[p].group];
  }
  void update(std::size_t p, std::vector<float>& mean) {
    const optimizer::Segment<float> segment{
        .parameters = values_[p], .gradient = mean, .state = {state_[0][p], state_[1][p]}};
    const optimizer::StepFacts facts{.step = version_, .rate = spec(p).rate};
    if (!optimizer::is_layerwise(spec(p))) return optimizer::update(spec(p), facts, segment);
    prepare(spec(p), facts, segment);
    finish(spec(p), facts, optimizer::Norms{norm_of(values_[p]), norm_of(mean)}, segment);
  }

  const GroupUpdate::Options options_;
  Values values_;
  std::vector<Values> state_;
  std::uint64_t version_ = 0;
};

// One rank of a run, after it.
struct Trained {
  bool exists = false;  // its exchange was made
  std::uint64_t steps = 0;
  Values values;
  std::vector<std::uint64_t> counted;  // versions at which its gradient counted
  std::vector<std::uint64_t> open;     // versions at which complete() failed
  std::optional<std::uint64_t> reformed_at;
  // The first step began here.
  TimePoint began{};
  std::uint64_t frames = 0;
  std::uint64_t frames_at_end = 0;
  TimePoint ended{};
};

enum class Fault { kNone, kKill, kDelay, kStop, kLongStop };

struct GroupRun {
  GroupCase plan;
  Place place;
  std::uint64_t seed = 1;
  Fault fault = Fault::kNone;
  bool reforms = false;
  bool drains = false;       // rank r has data for r + 2 steps
  Rank straggler = kNoRank;  // its steps take kStraggling longer
  Rank victim = kNoRank;
  // kKill: one of both.
  std::optional<TimePoint> killed_at = std::nullopt;
  std::optional<std::uint64_t> killed_before = std::nullopt;
};

// A rank of a run, with its exchange.
class Trainer {
 public:
  Trainer(Member& me, const GroupRun& run, Trained& trained)
      : me_(me),
        run_(run),
        options_(model_of(run.plan)),
        rng_(run.seed * 1000 + static_cast<std::uint64_t>(me.rank())),
        trained_(trained) {
    options_.clock = &me.clock();
    for (const OptimizerSpec& spec : options_.optimizers) rates_.push_back(spec.rate);
  }

  Result<void> train() {
    std::unique_ptr<Communicator> rest;
    if (run_.victim != kNoRank) {
      TALLY_TRY(rest, me_.communicator().split(me_.rank() == run_.victim ? -1 : 0, me_.rank(),
                                               me_.deadline()));
    }
    Result<void> outcome = make();
    if (outcome) outcome = run_.drains ? drain() : take_steps(kSteps);
    if (run_.reforms && rest && !is_dead()) outcome = recover(*rest, outcome);
    note();
    trained_.ended = me_.clock().now();
    exchange_.reset();
    trained_.frames_at_end = me_.transport().counters().frames_sent;
    // Stay until all ranks know of the fault: a rank that leaves is a loss of its own.
    if (!outcome && !is_dead()) me_.sleep(4 * kTimeout);
    return outcome;
  }

 private:
  bool is_dead() const {
    return me_.rank() == run_.victim && run_.killed_at && me_.clock().now() >= *run_.killed_at;
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
  Duration some_time(std::uint64_t microseconds) {
    return std::chrono::microseconds(rng_.below(microseconds));
  }

  Result<void> make() {
    const auto initial = [this](std::size_t p, std::span<std::byte> values) {
      const Values all = exchange::initial_values(options_);
      std::memcpy(values.data(), all[p].data(), values.size());
    };
    TALLY_TRY(exchange_, GroupExchange::make(me_.communicator(),
                                             {.update = options_,
                                              .rules = rules_of(run_.plan, me_.size()),
                                              .initial = initial,
                                              .pause = [this] { me_.sleep(200us); }},
                                             me_.deadline()));
    trained_.began = me_.clock().now();
    trained_.frames = me_.transport().counters().frames_sent;
    return {};
  }

  Result<void> take_steps(std::uint64_t until) {
    while (exchange_->steps() < until) TALLY_TRY(take_step());
    TALLY_TRY(exchange_->settle());
    std::vector<double> present = {1};
    TALLY_TRY(exchange_->meetings().meet(present));
    EXPECT_EQ(present[0], me_.size() - (trained_.reformed_at ? 1 : 0));
    return {};
  }

  Result<void> drain() {
    for (int step = 0; step < me_.rank() + 2; ++step) TALLY_TRY(take_step());
    TALLY_TRY(exchange_->drain({.rates = rates_}));
    return exchange_->settle();
  }

  Result<void> take_step() {
    TALLY_TRY(const exchange::StepChoice choice, exchange_->begin());
    const std::uint64_t counted = exchange_->statistics().staleness.total();
    StepContribution own{.rates = rates_};
    for (std::size_t p = 0; p < options_.parameters.size(); ++p)
      if (rng_.below(4) == 0) TALLY_TRY(exchange_->await(p));
    TALLY_TRY(compute(some_time(300) + (me_.rank() == run_.straggler ? kStraggling : 0ms)));
    if (choice.computes) {
      own.samples = own.weight = samples_of(me_.rank(), choice.version);
      if (rng_.below(2) == 0) TALLY_TRY(exchange_->announce(own));
      // Another order than that of the first buckets.
      for (const std::size_t p : {1, 4, 2, 0, 3}) {
        const std::vector<float>& gradient = gradient_of(options_, p, me_.rank(), choice.version);
        std::memcpy(exchange_->gradient(p).data(), gradient.data(), exchange_->gradient(p).size());
        TALLY_TRY(exchange_->ready(p, nullptr));
        TALLY_TRY(compute(some_time(50)));
      }
    }
    trained_.open.push_back(choice.version);
    TALLY_TRY(exchange_->complete(own));
    trained_.open.pop_back();
    if (exchange_->statistics().staleness.total() > counted)
      trained_.counted.push_back(choice.version);
    return {};
  }

  // If any rank of `rest` has failed, all of them continue without the victim.
  Result<void> recover(Communicator& rest, const Result<void>& outcome) {
    std::vector<std::int32_t> facts = {outcome ? 0 : 1, exchange_ ? 0 : 1};
    TALLY_TRY(rest.allreduce(std::span(facts), ReduceOp::kMax));
    if (facts[0] == 0 || facts[1] == 1) return outcome;
    TALLY_TRY(exchange_->reform(rest));
    trained_.reformed_at = exchange_->steps();
    const auto steps = take_steps(2 * kSteps);
    // `rest` must outlive the exchange.
    note();
    exchange_.reset();
    return steps;
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
  Trained& trained_;
  std::vector<double> rates_;
  std::unique_ptr<GroupExchange> exchange_;
};

struct GroupOutcome {
  Outcome cluster;
  std::vector<Trained> ranks;
};

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
  if (run.fault == Fault::kDelay)
    cluster.delay({.from = run.victim, .to = other, .extra = 20ms, .since = from});
  if (run.fault == Fault::kStop)
    cluster.stop({.rank = run.victim, .from = from, .until = from + kTimeout / 4});
  if (run.fault == Fault::kLongStop)
    cluster.stop({.rank = run.victim, .from = from, .until = from + 3 * kTimeout});
  GroupOutcome outcome{.ranks = std::vector<Trained>(static_cast<std::size_t>(run.place.ranks))};
  outcome.cluster = cluster.run([&](Member& me) {
    return Trainer(me, run, outcome.ranks[static_cast<std::size_t>(me.rank())]).train();
  });
  return outcome;
}

// The values of a version, from the ranks that counted in each one before it.
class Expected {
 public:
  Expected(const GroupRun& run, const std::vector<Trained>& ranks)
      : run_(run), options_(model_of(run.plan)), ranks_(ranks) {}

  // Null: no independent computation is possible. A lost rank takes the residuals of its codec
  // along.
  const Values* of(std::uint64_t version) {
    const auto known = known_.find(version);
    if (known != known_.end()) return &known->second;
    if (options_.codec.kind == plan::Codec::kNone) {
      Unsharded all(options_);
      for (std::uint64_t v = 0; v < version; ++v) {
        known_[v] = all.values();
        const std::vector<Rank> ranks = counted(v);
        if (ranks.empty()) return nullptr;
        all.step(ranks);
      }
      return &(known_[version] = all.values());
    }
    // A codec encodes the runs of a host's mean, which is cut between its ranks.
    const bool is_single =
        run_.place.is_one_host() || run_.place.per_host == 1 || !run_.place.is_even();
    if (!is_single || options_.clip_norm || reformed_at()) return nullptr;
    exchange::Course course{.steps = static_cast<int>(version)};
    exchange::SlowRecipe all(options_, exchange::single(run_.place.ranks));
    all.run(course);
    return &(known_[version] = all.values());
  }
  // The largest difference that the order of sums explains.
  double tolerance() const {
    const bool is_plain = options_.codec.kind == plan::Codec::kNone;
    if (options_.codec.kind == plan::Codec::kPowersgd) return 2e-5;
    if (!is_plain) return 0;
    if (!run_.place.is_one_host()) return 2e-5;
    const bool is_layerwise = optimizer::is_layerwise(options_.optimizers[0]);
    return is_layerwise || options_.clip_norm ? 2e-6 : 0;
  }

 private:
  std::optional<std::uint64_t> reformed_at() const {
    for (const Trained& each : ranks_)
      if (each.reformed_at) return each.reformed_at;
    return std::nullopt;
  }
  std::vector<Rank> counted(std::uint64_t version) const {
    std::vector<Rank> members;
    const bool is_reformed = reformed_at() && version >= *reformed_at();
    for (Rank rank = 0; rank < run_.place.ranks; ++rank)
      if (!is_reformed || rank != run_.victim) members.push_back(rank);
    const int workers = static_cast<int>(members.size());
    if (plan_of(run_.plan).update == plan::Update::kBackup)
      return first_ranks(members, std::max(1, workers - 1), version);
    const policy::Rules rules = rules_of(run_.plan, workers);
    std::vector<Rank> counted;
    for (std::size_t i = 0; i < members.size(); ++i)
      if (policy::takes_part(rules, static_cast<int>(i), version)) counted.push_back(members[i]);
    return counted;
  }

  // backup:B: the ranks whose gradients counted. A rank that failed does not know whether its own
  // did. Empty: neither do the others.
  std::vector<Rank> first_ranks(const std::vector<Rank>& members, int needed,
                                std::uint64_t version) const {
    const auto all_with = [&](bool with_open) {
      std::vector<Rank> found;
      for (const Rank rank : members) {
        const Trained& each = ranks_[static_cast<std::size_t>(rank)];
        const auto has = [version](const std::vector<std::uint64_t>& versions) {
          return std::find(versions.begin(), versions.end(), version) != versions.end();
        };
        if (has(each.counted) || (with_open && has(each.open))) found.push_back(rank);
      }
      return found;
    };
    for (const bool with_open : {false, true})
      if (const auto found = all_with(with_open); static_cast<int>(found.size()) == needed)
        return found;
    return {};
  }

  const GroupRun& run_;
  const GroupUpdate::Options options_;
  const std::vector<Trained>& ranks_;
  std::map<std::uint64_t, Values> known_;
};

std::string name_of(const GroupRun& run) {
  return fmt::format("{}: {} ranks, {} to a host, seed {}, fault {}, victim {}", run.plan.name,
                     run.place.ranks, run.place.per_host, run.seed, static_cast<int>(run.fault),
                     run.victim);
}

// All ranks end with `version`, the same bits and the expected values.
void expect_one_model(const GroupRun& run, const GroupOutcome& outcome, std::uint64_t version) {
  Expected expected(run, outcome.ranks);
  const Trained* first = nullptr;
  for (Rank rank = 0; rank < run.place.ranks; ++rank) {
    const Trained& trained = outcome.ranks[static_cast<std::size_t>(rank)];
    const bool is_victim = rank == run.victim && run.fault == Fault::kKill;
    if (is_victim) continue;
    ASSERT_TRUE(outcome.cluster[rank].has_value())
        << "rank " << rank << ": " << to_string(outcome.cluster[rank].error());
    EXPECT_EQ(trained.steps, version) << "rank " << rank;
    if (first == nullptr) first = &trained;
    EXPECT_TRUE(trained.values == first->values) << "rank " << rank;
  }
  const Values* const values = expected.of(version);
  if (values != nullptr) {
    EXPECT_LE(exchange::largest_difference(first->values, *values), expected.tolerance());
  }
}

const std::vector<GroupCase>& group_cases() {
  static const std::vector<GroupCase> all = {
      {"plain", "update=bsp"},
      {"adam", "update=bsp", "adam:rate=0.01"},
      {"clip_norm", "update=bsp", "sgd:rate=0.1,momentum=0.9", 0.5},
      {"lamb", "update=bsp", "lamb:rate=0.01"},
      {"int8", "update=bsp codec=int8"},
      {"topk", "update=bsp codec=topk:0.05"},
      {"powersgd", "update=bsp codec=powersgd:2"},
      {"priority", "update=bsp schedule=priority"},
      {"priority_int8", "update=bsp codec=int8 schedule=priority"},
      {"subset", "update=subset:1"},
      {"backup", "update=backup:1"},
  };
  return all;
}

class SimGroupExchanges : public testing::TestWithParam<GroupCase> {};

TEST_P(SimGroupExchanges, AllRanksEndWithTheExpectedModel) {
  const std::vector<Place> places = {{2, 1}, {3, 1}, {2, 2}, {3, 4},
                                     {4, 2}, {8, 4}, {5, 2}, {7, 4}};
  for (const Place& place : places) {
    const GroupRun run{.plan = GetParam(), .place = place, .seed = 11};
    SCOPED_TRACE(name_of(run));
    expect_one_model(run, run_group(run), kSteps);
  }
}

TEST_P(SimGroupExchanges, SixteenRanksEndWithTheExpectedModel) {
  const GroupRun run{.plan = GetParam(), .place = {16, 4}, .seed = 5};
  expect_one_model(run, run_group(run), kSteps);
}

TEST(SimGroupExchange, SixtyFourRanksEndWithTheExpectedModel) {
  const GroupRun run{.plan = {"plain", "update=bsp"}, .place = {64, 8}, .seed = 5};
  expect_one_model(run, run_group(run), kSteps);
}

// The ranks run out of data one after the other.
TEST_P(SimGroupExchanges, DrainedRanksEndWithOneModel) {
  for (const Place& place : std::vector<Place>{{3, 1}, {3, 4}, {4, 2}}) {
    const GroupRun run{.plan = GetParam(), .place = place, .seed = 3, .drains = true};
    SCOPED_TRACE(name_of(run));
    const GroupOutcome outcome = run_group(run);
    std::uint64_t updates = 0;
    for (const Trained& each : outcome.ranks)
      for (const std::uint64_t version : each.counted) updates = std::max(updates, version + 1);
    for (Rank rank = 0; rank < place.ranks; ++rank) {
      const Trained& trained = outcome.ranks[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(outcome.cluster[rank].has_value()) << to_string(outcome.cluster[rank].error());
      EXPECT_EQ(trained.steps, updates) << "rank " << rank;
      EXPECT_TRUE(trained.values == outcome.ranks[0].values) << "rank " << rank;
    }
  }
}

// backup:B with a straggler: the other ranks do not wait for its gradients, which rarely count.
TEST(SimGroupExchange, UpdatesGoOnWithoutAStraggler) {
  const GroupCase backup{"backup", "update=backup:1"};
  for (const Place& place : std::vector<Place>{{2, 1}, {3, 1}, {3, 4}, {4, 2}, {5, 2}}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      GroupRun run{.plan = backup, .place = place, .seed = seed};
      run.straggler = static_cast<Rank>(seed % static_cast<std::uint64_t>(place.ranks));
      SCOPED_TRACE(name_of(run));
      const GroupOutcome outcome = run_group(run);
      expect_one_model(run, outcome, kSteps);
      std::size_t counted = 0;
      for (const Trained& each : outcome.ranks) counted += each.counted.size();
      EXPECT_EQ(counted, kSteps * static_cast<std::size_t>(place.ranks - 1));
      EXPECT_LT(outcome.ranks[static_cast<std::size_t>(run.straggler)].counted.size(), 2U);
      EXPECT_LT(outcome.cluster.ended, kSteps * kStraggling);
    }
  }
}

// Survivors have whole versions, which differ by at most one, and errors that name a rank.
void expect_whole_versions(const GroupRun& run, const GroupOutcome& outcome) {
  Expected expected(run, outcome.ranks);
  std::uint64_t lowest = kSteps;
  std::uint64_t highest = 0;
  std::map<std::uint64_t, const Values*> first;
  for (Rank rank = 0; rank < run.place.ranks; ++rank) {
    const Trained& trained = outcome.ranks[static_cast<std::size_t>(rank)];
    const Result<void>& result = outcome.cluster[rank];
    if (rank == run.victim && run.fault == Fault::kKill) continue;
    SCOPED_TRACE(testing::Message()
                 << "rank " << rank << ": " << (result ? "success" : to_string(result.error())));
    if (result) {
      EXPECT_EQ(trained.steps, kSteps);
    } else if (run.fault == Fault::kKill) {
      EXPECT_EQ(result.error().code, ErrorCode::kPeerLost);
      EXPECT_EQ(result.error().peer, run.victim);
    } else {
      EXPECT_TRUE(result.error().code == ErrorCode::kTimeout ||
                  result.error().code == ErrorCode::kPeerLost);
      EXPECT_NE(result.error().peer, kNoRank);
      EXPECT_EQ(run.fault, Fault::kLongStop);
    }
    if (!trained.exists) continue;
    lowest = std::min(lowest, trained.steps);
    highest = std::max(highest, trained.steps);
    const Values* const same = first.emplace(trained.steps, &trained.values).first->second;
    EXPECT_TRUE(trained.values == *same);
    const Values* const values = expected.of(trained.steps);
    if (values != nullptr) {
      EXPECT_LE(exchange::largest_difference(trained.values, *values), expected.tolerance())
          << "version " << trained.steps;
    }
  }
  EXPECT_LE(highest, lowest + 1);
}

// The script of a seed: the victim, and the moment of its death.
GroupRun script_of(const GroupCase& one, std::uint64_t seed) {
  Rng rng(seed * 77 + 5);
  static const std::vector<Place> places = {{3, 4}, {3, 1}, {4, 2}, {2, 2}, {5, 2}, {6, 3}, {2, 1}};
  GroupRun run{.plan = one, .place = places[seed % places.size()], .seed = seed};
  run.victim = static_cast<Rank>(rng.below(static_cast<std::uint64_t>(run.place.ranks)));
  return run;
}

// Kills the victim at a moment or a frame of a step, as a run without faults shows them.
void kill_in_a_step(GroupRun& run) {
  static std::map<std::tuple<std::string, int, int>, GroupOutcome> known;
  const auto [found, is_new] =
      known.try_emplace({run.plan.name, run.place.ranks, run.place.per_host});
  if (is_new) found->second = run_group(run);
  const GroupOutcome& calm = found->second;
  Rng rng(run.seed * 13 + 1);
  const Trained& victim = calm.ranks[static_cast<std::size_t>(run.victim)];
  run.fault = Fault::kKill;
  const std::uint64_t frames = victim.frames_at_end - victim.frames;
  if (frames > 0 && rng.below(3) != 0) {
    run.killed_before = victim.frames + rng.below(frames);
  } else {
    const auto time = static_cast<std::uint64_t>((calm.cluster.ended - victim.began).count());
    run.killed_at = victim.began + Duration(static_cast<Duration::rep>(rng.below(time)));
  }
}

constexpr std::uint64_t kScripts = 10;

TEST_P(SimGroupExchanges, SurvivorsHaveWholeVersions) {
  int failed = 0;
  for (std::uint64_t seed = 0; seed < kScripts; ++seed) {
    GroupRun run = script_of(GetParam(), seed);
    kill_in_a_step(run);
    SCOPED_TRACE(name_of(run));
    const GroupOutcome outcome = run_group(run);
    for (const Trained& each : outcome.ranks) EXPECT_LT(each.ended, 100ms);
    expect_whole_versions(run, outcome);
    for (const auto& result : outcome.cluster.results) failed += result ? 0 : 1;
  }
  EXPECT_GT(failed, 0);
}

// The first update also rebuilds the buckets. The victim dies at each frame of it.
TEST(SimGroupExchange, ALossInTheFirstUpdateLeavesTheInitialValues) {
  int initial = 0;
  for (const Place& place : std::vector<Place>{{3, 1}, {4, 2}}) {
    GroupRun run{.plan = group_cases()[0], .place = place, .seed = 2, .victim = 1};
    const std::uint64_t first = run_group(run).ranks[1].frames;
    for (std::uint64_t frame = first; frame < first + 12; ++frame) {
      run.fault = Fault::kKill;
      run.killed_before = frame;
      SCOPED_TRACE(name_of(run) + fmt::format(", frame {}", frame));
      const GroupOutcome outcome = run_group(run);
      expect_whole_versions(run, outcome);
      if (outcome.ranks[0].steps == 0) ++initial;
    }
  }
  EXPECT_GT(initial, 10);
}

TEST_P(SimGroupExchanges, SlowRanksHoldUpOrEndTheOthers) {
  for (std::uint64_t seed = 0; seed < kScripts; ++seed) {
    GroupRun run = script_of(GetParam(), seed);
    run.fault = std::array{Fault::kDelay, Fault::kStop, Fault::kLongStop}[seed % 3];
    SCOPED_TRACE(name_of(run));
    const GroupOutcome outcome = run_group(run);
    for (const Trained& each : outcome.ranks) EXPECT_LT(each.ended, 4 * kTimeout);
    expect_whole_versions(run, outcome);
  }
}

// Whether the victim has the only copy of a part of the optimizer state.
bool loses_state(const GroupRun& run, std::uint64_t version) {
  const GroupUpdate::Options options = model_of(run.plan);
  const bool is_alone = run.place.per_host == 1 || !run.place.is_even();
  return is_alone && !run.place.is_one_host() && version > 0 && !options.by_priority &&
         options.codec.kind == plan::Codec::kNone;
}

TEST_P(SimGroupExchanges, SurvivorsContinueWithoutALostRank) {
  int reformed = 0;
  for (std::uint64_t seed = 0; seed < kScripts; ++seed) {
    GroupRun run = script_of(GetParam(), seed);
    kill_in_a_step(run);
    run.reforms = true;
    SCOPED_TRACE(name_of(run));
    const GroupOutcome outcome = run_group(run);
    for (const Trained& each : outcome.ranks) EXPECT_LT(each.ended, 100ms);
    const Rank some = run.victim == 0 ? 1 : 0;
    const Trained& survivor = outcome.ranks[static_cast<std::size_t>(some)];
    if (survivor.reformed_at) {
      ++reformed;
      expect_one_model(run, outcome, 2 * kSteps);
    } else if (outcome.cluster[some]) {
      expect_one_model(run, outcome, kSteps);
    } else {
      for (Rank rank = 0; rank < run.place.ranks; ++rank) {
        if (rank == run.victim) continue;
        const Trained& trained = outcome.ranks[static_cast<std::size_t>(rank)];
        ASSERT_FALSE(outcome.cluster[rank].has_value());
        EXPECT_EQ(outcome.cluster[rank].error().code, ErrorCode::kPeerLost)
            << "rank " << rank << ": " << to_string(outcome.cluster[rank].error());
        EXPECT_TRUE(loses_state(run, trained.steps))
            << trained.steps << to_string(outcome.cluster[rank].error());
      }
    }
  }
  EXPECT_GT(reformed, 0);
}

INSTANTIATE_TEST_SUITE_P(All, SimGroupExchanges, testing::ValuesIn(group_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace tally::sim
