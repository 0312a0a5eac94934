#include "bench/train/contest.h"

#include <fmt/format.h>

#include "base/errors.h"
#include "bench/train/curves.h"
#include "bench/train/samples.h"

namespace tally::bench::train {

Result<std::string> Contest::prepare(const ModelFacts& facts, int ranks) {
  TALLY_TRY(folder_, process::TempDir::make());
  TALLY_TRY(write_problem(folder_->path(), facts, ranks, timing_.seed));
  return folder_->path();
}

Result<std::unique_ptr<WorkerGroup>> Contest::start(Result<Launch> launch) {
  if (!launch) return launch.error();
  TALLY_TRY(check_interrupted());
  progress_.now(fmt::format("{}: starting {}", title_, launch->contender));
  return WorkerGroup::start(std::move(*launch), deadline());
}

Result<std::vector<double>> Contest::losses_of(WorkerGroup& group) {
  progress_.now(fmt::format("{}: losses of {}", title_, group.launch().contender));
  TALLY_TRY(Answer answer, group.command(fmt::format("check {}", kCheckedSteps), deadline()));
  // `check` answers with losses in place of times. The parser stops at one that is NaN or infinite.
  if (answer.samples_us.size() == kCheckedSteps) return std::move(answer.samples_us);
  return corrupt(
      fmt::format("{} losses of {} are numbers", answer.samples_us.size(), kCheckedSteps));
}

void Contest::enter(std::string name, std::unique_ptr<WorkerGroup> group) {
  entered_.emplace_back(std::move(name), std::move(group));
}

Result<void> Contest::time(std::size_t index, std::vector<double>& samples_ms,
                           const std::string& command) {
  TALLY_TRY(const Answer answer, entered_[index].second->command(
                                     fmt::format("{} {}", command, timing_.steps), deadline()));
  for (const double us : answer.samples_us) samples_ms.push_back(us / 1000);
  return {};
}

std::string Contest::log_of(std::size_t index) const {
  const auto& group = entered_[index].second;
  return group == nullptr ? "" : group->launch().processes.front().log_file;
}

}  // namespace tally::bench::train
