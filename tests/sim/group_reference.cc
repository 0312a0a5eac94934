#include "sim/group_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace tally::sim {
namespace {

using exchange::GroupUpdate;

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

// The values of a version, from the ranks that counted in each one before it.
class Expected {
 public:
  Expected(const GroupRun& run, const std::vector<TrainedRank>& ranks)
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
    const bool is_single = run_.place.is_one_host() || run_.place.per_host == 1 ||
                           !run_.place.is_even() || run_.plan.on_device;
    const bool is_auto = options_.codec.kind == plan::Codec::kAuto;
    if (!is_single || is_auto || options_.clip_norm || is_reformed()) return nullptr;
    std::vector<std::vector<Rank>> counted_ranks;
    for (std::uint64_t v = 0; v < version; ++v) counted_ranks.push_back(counted(v));
    const bool all_count = std::all_of(
        counted_ranks.begin(), counted_ranks.end(), [&](const std::vector<Rank>& ranks) {
          return ranks.size() == static_cast<std::size_t>(run_.place.ranks);
        });
    const bool is_known =
        std::none_of(counted_ranks.begin(), counted_ranks.end(),
                     [](const std::vector<Rank>& ranks) { return ranks.empty(); });
    if (!is_known || (!all_count && options_.codec.kind == plan::Codec::kPowersgd)) return nullptr;
    exchange::Course course{.steps = static_cast<int>(version)};
    course.samples = [&](Rank rank, int step) {
      const auto& ranks = counted_ranks[static_cast<std::size_t>(step)];
      const bool counts = std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
      return counts ? samples_of(rank, static_cast<std::uint64_t>(step)) : 0.0;
    };
    exchange::SlowRecipe all(options_, exchange::single(run_.place.ranks));
    all.run(course);
    return &(known_[version] = all.values());
  }
  // The largest difference that the order of sums explains.
  double tolerance() const {
    const bool is_plain = options_.codec.kind == plan::Codec::kNone;
    if (options_.codec.kind == plan::Codec::kPowersgd) return 2e-5;
    if (!is_plain) return 0;
    const bool is_one_replica =
        run_.place.is_one_host() && options_.replicas == exchange::Replicas::kPerHost;
    if (!is_one_replica || run_.plan.on_device) return 2e-5;
    const bool is_layerwise = optimizer::is_layerwise(options_.optimizers[0]);
    return is_layerwise || options_.clip_norm ? 2e-6 : 0;
  }

 private:
  bool is_reformed() const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const TrainedRank& each) { return !each.reforms.empty(); });
  }
  std::vector<Rank> lost_at(std::uint64_t version) const {
    std::vector<Rank> lost;
    for (const TrainedRank& each : ranks_)
      for (const Reform& reform : each.reforms)
        if (version >= reform.version && reform.lost.size() > lost.size()) lost = reform.lost;
    return lost;
  }
  std::vector<Rank> counted(std::uint64_t version) const {
    std::vector<Rank> members;
    const std::vector<Rank> lost = lost_at(version);
    for (Rank rank = 0; rank < run_.place.ranks; ++rank)
      if (std::find(lost.begin(), lost.end(), rank) == lost.end()) members.push_back(rank);
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
        const TrainedRank& each = ranks_[static_cast<std::size_t>(rank)];
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
  const std::vector<TrainedRank>& ranks_;
  std::map<std::uint64_t, Values> known_;
};

}  // namespace

void expect_one_model(const GroupRun& run, const GroupOutcome& outcome, std::uint64_t version) {
  Expected expected(run, outcome.ranks);
  const TrainedRank* first = nullptr;
  for (Rank rank = 0; rank < run.place.ranks; ++rank) {
    const TrainedRank& trained = outcome.rank(rank);
    if (run.is_lost(rank)) continue;
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

void expect_whole_versions(const GroupRun& run, const GroupOutcome& outcome) {
  Expected expected(run, outcome.ranks);
  std::uint64_t lowest = run.steps;
  std::uint64_t highest = 0;
  std::map<std::uint64_t, const Values*> first;
  for (Rank rank = 0; rank < run.place.ranks; ++rank) {
    const TrainedRank& trained = outcome.rank(rank);
    const Result<void>& result = outcome.cluster[rank];
    if (run.is_lost(rank)) continue;
    SCOPED_TRACE(testing::Message()
                 << "rank " << rank << ": " << (result ? "success" : to_string(result.error())));
    if (result) {
      EXPECT_EQ(trained.steps, run.steps);
    } else if (run.fault == Fault::kKill) {
      EXPECT_EQ(result.error().code, ErrorCode::kPeerLost);
      EXPECT_EQ(result.error().peer, run.victim);
    } else {
      EXPECT_TRUE(result.error().code == ErrorCode::kTimeout ||
                  result.error().code == ErrorCode::kPeerLost);
      EXPECT_NE(result.error().peer, kNoRank);
      EXPECT_EQ(run.fault, Fault::kLongStop);
    }
    // A step in place that has failed may have changed some values.
    if (!trained.exists || (run.plan.in_place && !result)) continue;
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

}  // namespace tally::sim
