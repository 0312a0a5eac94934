#pragma once
#include <string>
#include <vector>

namespace tally::app::doctor {

// kProblem: a job will fail. kSlow: it will run, and slower than it could. kNote: good to know.
enum class Level { kOk, kNote, kSlow, kProblem };

std::string_view to_string(Level level);

// One thing that was looked at.
struct Finding {
  Level level = Level::kOk;
  std::string subject;  // "shared memory"
  std::string what;     // what was found
  std::string advice;   // what to do about it; empty if nothing is to be done

  friend bool operator==(const Finding&, const Finding&) = default;
};

using Findings = std::vector<Finding>;

}  // namespace tally::app::doctor
