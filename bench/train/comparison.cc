#include "bench/train/comparison.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "bench/train/curves.h"
#include "bench/train/problem_files.h"
#include "process/interrupt.h"
#include "process/temp_dir.h"

namespace tally::bench::train {
namespace {

struct Contender {
  std::unique_ptr<WorkerGroup> group;  // nullptr: failed or missing
  Measurement measured;
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
        progress_(progress) {}

  void run();

 private:
  Result<void> prepare();
  // Starts a group, gets its first losses and ends it.
  Result<Curve> losses_once(Result<Launch> launch);
  Result<Curve> losses_of(WorkerGroup& group);
  Result<std::unique_ptr<WorkerGroup>> start(Result<Launch> launch);
  // Starts and checks one contender against the curves in `agreed`, and adds its own curve to them.
  void enter(const std::string& name, int ranks, Result<Launch> launch, std::vector<Curve>& agreed);
  Result<Curve> single_reference();
  int measure();
  void fail(const std::string& who, const Error& error);
  Deadline deadline() const { return SteadyClock().after(options_.timing.command_timeout); }

  const ComparisonOptions& options_;
  const ModelFacts& facts_;
  Workers workers_;
  Comparison& result_;
  process::Progress& progress_;
  std::unique_ptr<process::TempDir> folder_;
  std::vector<Contender> contenders_;
};

void ModelRun::run() {
  if (const auto prepared = prepare(); !prepared) return fail("problem", prepared.error());
  progress_.stage(fmt::format("{}: comparing losses of {} steps", facts_.name, kCheckedSteps));
  const auto reference = losses_once(launch_plain(workers_, "reference", workers_.ranks));
  const auto twin = single_reference();
  if (!reference) return fail("reference", reference.error());
  if (!twin) return fail("reference of single", twin.error());
  std::vector<Curve> of_all = {*reference};
  std::vector<Curve> of_one = {*twin};
  enter("tally", workers_.ranks, launch_tally(workers_), of_all);
  enter("single", 1, launch_plain(workers_, "single", 1), of_one);
  if (options_.against_ddp) enter("ddp", workers_.ranks, launch_ddp(workers_), of_all);
  result_.rounds = std::min(result_.rounds, measure());
  for (Contender& contender : contenders_)
    result_.measurements.push_back(std::move(contender.measured));
}

Result<void> ModelRun::prepare() {
  TALLY_TRY(folder_, process::TempDir::make());
  workers_.problem = folder_->path();
  return write_problem(folder_->path(), facts_, workers_.ranks, options_.timing.seed);
}

Result<std::unique_ptr<WorkerGroup>> ModelRun::start(Result<Launch> launch) {
  if (!launch) return launch.error();
  if (process::interrupted() != 0)
    return Error{.code = ErrorCode::kClosed, .message = "interrupted"};
  progress_.now(fmt::format("{}: starting {}", facts_.name, launch->contender));
  return WorkerGroup::start(std::move(*launch), deadline());
}

Result<Curve> ModelRun::losses_of(WorkerGroup& group) {
  progress_.now(fmt::format("{}: losses of {}", facts_.name, group.launch().contender));
  TALLY_TRY(Answer answer, group.command(fmt::format("check {}", kCheckedSteps), deadline()));
  if (answer.samples_us.size() != kCheckedSteps)
    return Error{.code = ErrorCode::kCorrupt,
                 .message = fmt::format("{} losses of {} are numbers", answer.samples_us.size(),
                                        kCheckedSteps)};
  return Curve{.name = group.launch().contender, .losses = std::move(answer.samples_us)};
}

Result<Curve> ModelRun::losses_once(Result<Launch> launch) {
  TALLY_TRY(const std::unique_ptr<WorkerGroup> group, start(std::move(launch)));
  return losses_of(*group);
}

Result<Curve> ModelRun::single_reference() {
  if (options_.against_ddp) {
    auto launch = launch_python_twin(workers_);
    if (launch) return losses_once(std::move(launch));
  }
  Workers one = workers_;
  one.ranks = 1;
  TALLY_TRY(Curve curve, losses_once(launch_tally(one)));
  curve.name = "tally with one rank";
  return curve;
}

void ModelRun::enter(const std::string& name, int ranks, Result<Launch> launch,
                     std::vector<Curve>& agreed) {
  auto group = start(std::move(launch));
  if (!group) return fail(name, group.error());
  const auto curve = losses_of(**group);
  if (!curve) return fail(name, curve.error());
  const auto difference = agreement(*curve, agreed);
  if (!difference) return fail(name, difference.error());
  agreed.push_back(*curve);
  const double units = static_cast<double>(facts_.units()) * ranks;
  Measurement measured{.model = facts_.name,
                       .contender = name,
                       .ranks = ranks,
                       .unit = facts_.unit(),
                       .units_per_step = units,
                       .checked = true,
                       .difference = *difference,
                       .version = (*group)->version()};
  contenders_.push_back({.group = std::move(*group), .measured = std::move(measured)});
}

// Each round begins with another contender, so that no contender always follows the same neighbour.
// Returns complete rounds.
int ModelRun::measure() {
  for (int round = 0; round < options_.timing.rounds; ++round) {
    progress_.stage(
        fmt::format("{}: round {} of {}", facts_.name, round + 1, options_.timing.rounds));
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      Contender& contender =
          contenders_[(i + static_cast<std::size_t>(round)) % contenders_.size()];
      if (process::interrupted() != 0) return round;
      if (contender.group == nullptr) continue;
      progress_.now(
          fmt::format("{}: round {}: {}", facts_.name, round + 1, contender.measured.contender));
      const auto answer =
          contender.group->command(fmt::format("run {}", options_.timing.steps), deadline());
      if (!answer) {
        fail(contender.measured.contender, answer.error());
        contender.group.reset();
        continue;
      }
      for (const double us : answer->samples_us) contender.measured.samples_ms.push_back(us / 1000);
    }
  }
  return options_.timing.rounds;
}

void ModelRun::fail(const std::string& who, const Error& error) {
  if (process::interrupted() != 0) return;
  result_.failures.push_back(fmt::format("{}, {}: {}", facts_.name, who, error.message));
  progress_.note("failed: " + result_.failures.back());
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
