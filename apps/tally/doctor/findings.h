#pragma once
#include <optional>
#include <string>
#include <vector>

#include "apps/tally/doctor/facts.h"

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

// Derives findings for a job from the facts. Pure.
Findings judge_machine(const MachineFacts& facts);
Findings judge_software(const SoftwareFacts& facts);

// Facts about another host, as far as it could be asked.
struct PeerFacts {
  std::string host;
  std::string trouble;  // why the host could not be asked; empty: it answered
  // A connection from another host to this one: why it failed; empty: it works.
  struct Path {
    std::string from;
    std::string trouble;
    double round_trip_ms = 0;
  };
  std::vector<Path> paths;
  struct Clock {
    double ahead_ms = 0;        // relative to the clock of this host
    double uncertainty_ms = 0;  // half of the round trip
  };
  std::optional<Clock> clock;
};

Findings judge_peer(const PeerFacts& facts);

}  // namespace tally::app::doctor
