#pragma once
#include <string>
#include <vector>

namespace tally::app::doctor {

// kProblem: a job will fail. kSlow: a job runs slower than it could. kNote: information.
enum class Level { kOk, kNote, kSlow, kProblem };

std::string_view to_string(Level level);

// Result of one check.
struct Finding {
  Level level = Level::kOk;
  std::string subject;  // "shared memory"
  std::string what;     // the observation
  std::string advice;   // the remedy; empty: none is needed

  friend bool operator==(const Finding&, const Finding&) = default;
};

using Findings = std::vector<Finding>;

}  // namespace tally::app::doctor
