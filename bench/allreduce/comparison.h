#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/allreduce/contender.h"
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
  std::string contender;
  std::string transport;
  std::string version;
  std::size_t bytes = 0;
  std::vector<double> samples_us;
  long calls = 0;
  double bytes_sent = -1;  // per call, by rank 0; negative: unknown
};

struct Comparison {
  std::vector<Measurement> measurements;  // by contender in the given order, then by size
  std::vector<std::string> failures;      // one text each
  int rounds = 0;
};

// Checks every contender at every size, then measures in rounds. In each round every contender has
// a slice of time at every size, so that noise of the machine affects all alike. A contender that
// fails is ended and reported, the rest go on. Stops early when the process is interrupted.
Comparison compare(std::vector<std::unique_ptr<Contender>> contenders,
                   const ComparisonOptions& options, process::Progress& progress);

}  // namespace tally::bench
