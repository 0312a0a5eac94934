#pragma once
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "exchange/group/encoded_update_test_support.h"
#include "exchange/group/group_update.h"
#include "plan/plan.h"
#include "policy/rules.h"
#include "sim/cluster.h"

// Runs of the exchange of a trainer with home=group in virtual time: the model, the faults of a
// run, and what each rank has at its end.
namespace tally::sim {

using exchange::Values;

constexpr std::uint64_t kSteps = 4;  // before a reform, and again after it
constexpr Duration kTimeout = std::chrono::seconds(2);
constexpr Duration kStraggling = std::chrono::milliseconds(4);

struct GroupCase {
  std::string name;
  std::string plan;
  std::string optimizer = "sgd:rate=0.1,momentum=0.9";
  std::optional<double> clip_norm = std::nullopt;
  bool in_place = false;
  exchange::Replicas replicas = exchange::Replicas::kPerHost;
  bool is_small = false;   // a model of a few parameters, for many ranks
  bool on_device = false;  // a DeviceExchange over ordinary memory

  friend void PrintTo(const GroupCase& one, std::ostream* out) { *out << one.name; }
};

struct Place {
  int ranks = 2;
  int per_host = 1;

  bool is_one_host() const { return ranks <= per_host; }
  // Where ranks do not lie evenly on hosts, each rank acts as a host of its own.
  bool is_even() const { return ranks % per_host == 0; }
};

plan::Plan plan_of(const GroupCase& one);
policy::Rules rules_of(const GroupCase& one, int workers);
// Parameters that are tiny, cross blocks, or share a bucket.
exchange::GroupUpdate::Options model_of(const GroupCase& one);

double samples_of(Rank rank, std::uint64_t version);
// The gradient of a rank at a version. One rank runs at a time, so all may use one store.
const std::vector<float>& gradient_of(const exchange::GroupUpdate::Options& options,
                                      std::size_t parameter, Rank rank, std::uint64_t version);

// From `version` on the run goes on without the `lost` ranks.
struct Reform {
  std::uint64_t version = 0;
  std::vector<Rank> lost;
};

// The frames that a rank sends in a part of its run.
struct FrameRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// One rank of a run, after it.
struct TrainedRank {
  bool exists = false;  // its exchange was made
  std::uint64_t steps = 0;
  Values values;
  std::vector<std::uint64_t> counted;  // versions at which its gradient counted
  std::vector<std::uint64_t> open;     // versions at which complete() failed
  std::vector<Reform> reforms;         // that succeeded
  std::vector<Error> errors;           // of training, then of each recovery
  FrameRange make_frames;
  FrameRange reform_frames;  // of the first reform
  std::uint64_t frames_at_end = 0;
  TimePoint began{};  // the first step
  TimePoint ended{};
};

enum class Fault { kNone, kKill, kDelay, kStop, kLongStop };

struct GroupRun {
  GroupCase plan;
  Place place;
  std::uint64_t seed = 1;
  std::uint64_t steps = kSteps;
  Fault fault = Fault::kNone;
  bool reforms = false;
  bool drains = false;       // rank r has data for r + 2 steps
  Rank straggler = kNoRank;  // its steps take kStraggling longer
  Rank victim = kNoRank;
  // kKill: one of both.
  std::optional<TimePoint> killed_at = std::nullopt;
  std::optional<std::uint64_t> killed_before = std::nullopt;
  // Dies in the reform without the victim; the others then reform once more.
  Rank second = kNoRank;
  std::optional<std::uint64_t> second_killed_before = std::nullopt;

  bool is_lost(Rank rank) const {
    return (rank == victim && fault == Fault::kKill) || (rank == second && second_killed_before);
  }
};

std::string name_of(const GroupRun& run);

struct GroupOutcome {
  Outcome cluster;
  std::vector<TrainedRank> ranks;

  const TrainedRank& rank(Rank rank) const { return ranks[static_cast<std::size_t>(rank)]; }
};

GroupOutcome run_group(const GroupRun& run);

// The script of a seed: the place and the victim.
GroupRun script_of(const GroupCase& one, std::uint64_t seed);
// Kills the victim at a moment or a frame of a step, as a run without faults shows them.
void kill_in_a_step(GroupRun& run);

}  // namespace tally::sim
