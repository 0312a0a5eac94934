#pragma once
#include <optional>
#include <string>
#include <vector>

#include "apps/tally/doctor/finding.h"
#include "apps/tally/doctor/machine_facts.h"
#include "apps/tally/doctor/software_facts.h"

namespace tally::app::doctor {

// What the facts mean for a job. Pure.
Findings judge_machine(const MachineFacts& facts);
Findings judge_software(const SoftwareFacts& facts);

// How another host looks from this one, as far as it could be asked.
struct PeerFacts {
  std::string host;
  std::string trouble;  // why it could not be asked; empty: it answered
  // From each other host to this one: why a connection failed; empty: it works.
  struct Path {
    std::string from;
    std::string trouble;
    double round_trip_ms = 0;
  };
  std::vector<Path> paths;
  struct Clock {
    double ahead_ms = 0;        // of ours
    double uncertainty_ms = 0;  // half the round trip
  };
  std::optional<Clock> clock;
};

Findings judge_peer(const PeerFacts& facts);

}  // namespace tally::app::doctor
