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
  std::vector<std::uint16_t> ports;  // to meet at: one per block, two blocks per round
};

// Of one block of steps.
struct Block {
  double wall_ms = 0;          // of a step
  double cpu_ms = 0;           // of a step, whole process
  double other_cpu_share = 0;  // of other threads than the caller's, as a share of the caller's
};

struct RankFigures {
  std::vector<Block> without;  // one per round
  std::vector<Block> with;
};

// This process as a rank, as the environment says: all rounds.
Result<RankFigures> run_rank(const RankOptions& options);

// Nanoseconds for recording one operation.
double recording_ns();

}  // namespace tally::bench
