#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::bench {

struct RankOptions {
  int rounds = 5;
  int steps = 100;
  std::string coordinator;
  double heartbeat_s = 1;
  std::vector<std::uint16_t> ports;  // of the rendezvous: one per block, two blocks per round
};

// Measurement of one block of steps.
struct Block {
  double wall_ms = 0;          // per step
  double cpu_ms = 0;           // per step, whole process
  double other_cpu_share = 0;  // threads other than the caller's, relative to the caller's
};

struct RankFigures {
  std::vector<Block> without;  // one per round
  std::vector<Block> with;
};

// Runs all rounds as the rank of the environment.
Result<RankFigures> run_rank(const RankOptions& options);

// Returns the nanoseconds for recording one operation.
double recording_ns();

}  // namespace tally::bench
