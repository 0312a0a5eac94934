#include "bench/train/comparison.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "bench/train/contest.h"
#include "bench/train/curves.h"

namespace tally::bench::train {
namespace {

// One whose losses were read.
struct Candidate {
  std::string name;
  int ranks = 1;
  Curve curve;
  std::unique_ptr<WorkerGroup> group;  // null: only a witness of the right losses
};

// The contenders of one model.
class ModelRun final {
 public:
  ModelRun(const ComparisonOptions& options, const ModelFacts& facts, Comparison& result,
           process::Progress& progress)
      : options_(options),
        facts_(facts),
        workers_(options.workers),
        result_(result),
        progress_(progress),
        contest_(facts.name, options.timing, result.failures, progress) {}

  void run();

 private:
  // Starts a contender and reads its losses, or reports why not.
  void add(const std::string& name, int ranks, Result<Launch> launch);
  // The same for one that is compared and not timed.
  bool add_witness(const std::string& name, int ranks, Result<Launch> launch);
  Result<Candidate> candidate(const std::string& name, int ranks, Result<Launch> launch);
  void add_all();
  void add_witness_of_single();
  bool has(const std::string& name) const;
  // Admits the contenders with so many ranks whose losses are right, and reports the others.
  void admit(int ranks);
  void admit(Candidate& candidate, double difference);
  Result<void> time(std::size_t index);

  const ComparisonOptions& options_;
  const ModelFacts& facts_;
  Workers workers_;
  Comparison& result_;
  process::Progress& progress_;
  Contest contest_;
  std::vector<Candidate> candidates_;
  std::vector<Measurement> measured_;
};

void ModelRun::run() {
  auto folder = contest_.prepare(facts_, workers_.ranks);
  if (!folder) return contest_.fail("problem", folder.error());
  workers_.problem = *std::move(folder);
  progress_.stage(fmt::format("{}: comparing losses of {} steps", facts_.name, kCheckedSteps));
  add_all();
  admit(workers_.ranks);
  if (workers_.ranks > 1) admit(1);
  const int rounds = contest_.measure([this](std::size_t i) { return time(i); });
  result_.rounds = std::min(result_.rounds, rounds);
  std::move(measured_.begin(), measured_.end(), std::back_inserter(result_.measurements));
}

void ModelRun::add_all() {
  const int ranks = workers_.ranks;
  if (ranks > 1) add_witness("reference", ranks, launch_plain(workers_, "reference", ranks));
  add("tally", ranks, launch_tally(workers_));
  if (options_.with_graphs) {
    Workers with_graphs = workers_;
    with_graphs.graphs = true;
    add("tally-graphs", ranks, launch_tally(with_graphs));
  }
  add("single", 1, launch_plain(workers_, "single", 1));
  if (options_.against_torch) add("torch", 1, launch_torch(workers_, "torch"));
  if (options_.against_ddp) add("ddp", ranks, launch_ddp(workers_));
  if (ranks > 1 && !has("torch")) add_witness_of_single();
}

Result<Candidate> ModelRun::candidate(const std::string& name, int ranks, Result<Launch> launch) {
  TALLY_TRY(auto group, contest_.start(std::move(launch)));
  TALLY_TRY(std::vector<double> losses, contest_.losses_of(*group));
  return Candidate{.name = name,
                   .ranks = ranks,
                   .curve = {.name = name, .losses = std::move(losses)},
                   .group = std::move(group)};
}

void ModelRun::add(const std::string& name, int ranks, Result<Launch> launch) {
  auto added = candidate(name, ranks, std::move(launch));
  if (!added) return contest_.fail(name, added.error());
  candidates_.push_back(*std::move(added));
}

bool ModelRun::add_witness(const std::string& name, int ranks, Result<Launch> launch) {
  auto added = candidate(name, ranks, std::move(launch));
  if (!added) {
    contest_.fail(name, added.error());
    return false;
  }
  added->group.reset();
  candidates_.push_back(*std::move(added));
  return true;
}

void ModelRun::add_witness_of_single() {
  if (options_.against_ddp) {
    auto twin = launch_torch(workers_, "python twin");
    if (twin && add_witness("python twin", 1, std::move(twin))) return;
  }
  Workers one = workers_;
  one.ranks = 1;
  add_witness("tally with one rank", 1, launch_tally(one));
}

bool ModelRun::has(const std::string& name) const {
  return std::any_of(candidates_.begin(), candidates_.end(),
                     [&](const Candidate& candidate) { return candidate.name == name; });
}

void ModelRun::admit(int ranks) {
  std::vector<Candidate*> peers;
  std::vector<Curve> curves;
  for (Candidate& candidate : candidates_) {
    if (candidate.ranks != ranks) continue;
    peers.push_back(&candidate);
    curves.push_back(candidate.curve);
  }
  const Computation& computation = workers_.computation;
  const auto verdicts = judge(curves, tolerance_of(computation.device, computation.precision));
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (!verdicts[i])
      contest_.fail(peers[i]->name, verdicts[i].error());
    else if (peers[i]->group != nullptr)
      admit(*peers[i], *verdicts[i]);
    peers[i]->group.reset();
  }
}

void ModelRun::admit(Candidate& candidate, double difference) {
  measured_.push_back({.model = facts_.name,
                       .contender = candidate.name,
                       .ranks = candidate.ranks,
                       .unit = facts_.unit(),
                       .units_per_step = static_cast<double>(facts_.units()) * candidate.ranks,
                       .samples_ms = {},
                       .difference = difference,
                       .version = candidate.group->version()});
  contest_.enter(candidate.name, std::move(candidate.group));
}

// A captured step cannot be compared with passes that are not captured.
Result<void> ModelRun::time(std::size_t index) {
  Measurement& measured = measured_[index];
  TALLY_TRY(contest_.time(index, measured.samples_ms));
  if (measured.contender != "tally" || measured.ranks > 1) return {};
  return contest_.time(index, measured.passes_ms, "passes");
}

}  // namespace

Comparison compare(const ComparisonOptions& options, process::Progress& progress) {
  Comparison result{.rounds = options.timing.rounds};
  for (const ModelFacts& facts : options.models) {
    if (process::interrupted() != 0) break;
    ModelRun(options, facts, result, progress).run();
  }
  return result;
}

}  // namespace tally::bench::train
