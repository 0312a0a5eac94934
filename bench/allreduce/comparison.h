#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/allreduce/contender.h"
#include "bench/common/report.h"
#include "bench/common/rounds.h"
#include "process/progress.h"
#include "tally/deadline.h"

namespace tally::bench {

struct ComparisonOptions {
  std::vector<std::size_t> sizes_bytes;
  int rounds = 5;
  Duration slice = std::chrono::milliseconds(150);  // per contender and size in each round
  Duration budget = Duration::max();                // no round starts after this time
};

// All samples of one contender at one size.
struct Measurement {
  ContenderFacts contender;
  std::size_t bytes = 0;
  Answer sum = {};
};

struct Comparison {
  std::vector<Measurement> measurements;  // by contender in the given order, then by size
  Failures failures;
  int rounds = 0;  // complete ones
};

// Checks every contender at every size, then measures in rounds. In each round every contender has
// a slice of time at every size, so that noise of the machine affects all alike. A contender that
// fails is ended and added to the failures, the rest go on. Stops early when the process is
// interrupted.
Comparison compare(std::vector<std::unique_ptr<Contender>> contenders,
                   const ComparisonOptions& options, Failures failures,
                   process::Progress& progress);

// The table has medians by contender and size; then tally's time over that of Gloo and of the
// better MPI, and the floor over tally's time. There is a line for each contender and size that was
// measured. `algorithm`: that of tally.
Report report_on(const Comparison& comparison, int ranks, const std::string& algorithm);

}  // namespace tally::bench
