#include "bench/train/comparison.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "bench/train/contest.h"
#include "bench/train/curves.h"

namespace tally::bench::train {
namespace {

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
  // Starts a group, gets its first losses and ends it.
  Result<Curve> losses_once(const std::string& name, Result<Launch> launch);
  // Starts and checks one contender against the curves in `agreed`, and adds its own curve to them.
  Result<void> enter(const std::string& name, int ranks, Result<Launch> launch,
                     std::vector<Curve>& agreed);
  Result<Curve> single_reference();

  const ComparisonOptions& options_;
  const ModelFacts& facts_;
  Workers workers_;
  Comparison& result_;
  process::Progress& progress_;
  Contest contest_;
  std::vector<Measurement> measured_;
};

void ModelRun::run() {
  auto folder = contest_.prepare(facts_, workers_.ranks);
  if (!folder) return contest_.fail("problem", folder.error());
  workers_.problem = *std::move(folder);
  progress_.stage(fmt::format("{}: comparing losses of {} steps", facts_.name, kCheckedSteps));
  const auto reference =
      losses_once("reference", launch_plain(workers_, "reference", workers_.ranks));
  const auto twin = single_reference();
  if (!reference) return contest_.fail("reference", reference.error());
  if (!twin) return contest_.fail("reference of single", twin.error());
  std::vector<Curve> of_all = {*reference};
  std::vector<Curve> of_one = {*twin};
  const auto entered = [this](const std::string& name, const Result<void>& outcome) {
    if (!outcome) contest_.fail(name, outcome.error());
  };
  const int ranks = workers_.ranks;
  entered("tally", enter("tally", ranks, launch_tally(workers_), of_all));
  entered("single", enter("single", 1, launch_plain(workers_, "single", 1), of_one));
  if (options_.against_ddp) entered("ddp", enter("ddp", ranks, launch_ddp(workers_), of_all));
  const int rounds =
      contest_.measure([this](std::size_t i) { return contest_.time(i, measured_[i].samples_ms); });
  result_.rounds = std::min(result_.rounds, rounds);
  std::move(measured_.begin(), measured_.end(), std::back_inserter(result_.measurements));
}

Result<Curve> ModelRun::losses_once(const std::string& name, Result<Launch> launch) {
  TALLY_TRY(const std::unique_ptr<WorkerGroup> group, contest_.start(std::move(launch)));
  TALLY_TRY(std::vector<double> losses, contest_.losses_of(*group));
  return Curve{.name = name, .losses = std::move(losses)};
}

Result<Curve> ModelRun::single_reference() {
  if (options_.against_ddp) {
    auto launch = launch_python_twin(workers_);
    if (launch) return losses_once("python twin", std::move(launch));
  }
  Workers one = workers_;
  one.ranks = 1;
  return losses_once("tally with one rank", launch_tally(one));
}

Result<void> ModelRun::enter(const std::string& name, int ranks, Result<Launch> launch,
                             std::vector<Curve>& agreed) {
  TALLY_TRY(auto group, contest_.start(std::move(launch)));
  TALLY_TRY(std::vector<double> losses, contest_.losses_of(*group));
  Curve curve{.name = name, .losses = std::move(losses)};
  TALLY_TRY(const double difference, agreement(curve, agreed));
  agreed.push_back(std::move(curve));
  measured_.push_back({.model = facts_.name,
                       .contender = name,
                       .ranks = ranks,
                       .unit = facts_.unit(),
                       .units_per_step = static_cast<double>(facts_.units()) * ranks,
                       .difference = difference,
                       .version = group->version()});
  contest_.enter(name, std::move(group));
  return {};
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
