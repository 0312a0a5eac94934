#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "bench/common/rounds.h"
#include "bench/train/launches.h"
#include "bench/train/model_facts.h"
#include "process/progress.h"
#include "process/temp_dir.h"
#include "tally/error.h"

namespace tally::bench::train {

// The contenders that train one problem: starts their workers, gets the losses of their first
// steps, and times them in rounds. Stops early when the process is interrupted.
class Contest final {
 public:
  // `title` names the problem in messages. Failures are added to `failures`.
  Contest(std::string title, const TimingOptions& timing, Failures& failures,
          process::Progress& progress)
      : title_(std::move(title)), timing_(timing), failures_(failures), progress_(progress) {}

  // Writes the problem as write_problem() does, and returns its folder.
  Result<std::string> prepare(const ModelFacts& facts, int ranks);
  Result<std::unique_ptr<WorkerGroup>> start(Result<Launch> launch);
  // Returns the losses of kCheckedSteps steps.
  Result<std::vector<double>> losses_of(WorkerGroup& group);
  // A group whose losses have been checked, to be timed under this name.
  void enter(std::string name, std::unique_ptr<WorkerGroup> group);

  // In each round calls `turn` with the index of every contender, in the order of enter(), that has
  // not failed. A contender whose turn returns an error is ended. Returns complete rounds.
  template <typename Turn>
  int measure(Turn turn) {
    for (int round = 0; round < timing_.rounds; ++round) {
      progress_.stage(fmt::format("{}: round {} of {}", title_, round + 1, timing_.rounds));
      take_turns(round, entered_.size(), [&](std::size_t i) {
        auto& [name, group] = entered_[i];
        if (group == nullptr) return;
        progress_.now(fmt::format("{}: round {}: {}", title_, round + 1, name));
        const Result<void> outcome = turn(i);
        if (outcome) return;
        fail(name, outcome.error());
        group.reset();
      });
      if (process::interrupted() != 0) return round;
    }
    return timing_.rounds;
  }
  // For turns: lets one contender make its timed steps and adds the milliseconds of each. `command`
  // is one of torch_worker.h that times steps.
  Result<void> time(std::size_t index, std::vector<double>& samples_ms,
                    const std::string& command = "run");
  // Returns the first log of a contender; empty if it has failed.
  std::string log_of(std::size_t index) const;

  void fail(const std::string& who, const Error& error) {
    failures_.add(title_ + ", " + who, error, progress_);
  }

 private:
  Deadline deadline() const { return SteadyClock().after(timing_.command_timeout); }

  const std::string title_;
  const TimingOptions& timing_;
  Failures& failures_;
  process::Progress& progress_;
  std::unique_ptr<process::TempDir> folder_;
  std::vector<std::pair<std::string, std::unique_ptr<WorkerGroup>>> entered_;  // nullptr: failed
};

}  // namespace tally::bench::train
