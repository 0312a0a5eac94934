#pragma once
#include <string>

#include "bench/common/report.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench {

struct StartupOptions {
  std::string tally;  // the program
  int ranks = 4;
  int runs = 20;
  Duration run_timeout = std::chrono::seconds(60);
};

// Measures, in each run, the time from the start of `tally run` to the last rank's first
// all-reduce, and from the start of the program to its first line. kSystem, with the output, if a
// run fails or a rank reports nothing.
Result<Report> measure_startup(const StartupOptions& options);

// One rank: joins, reduces, and reports the times. kMismatch if the sum is wrong.
Result<void> run_startup_worker();

}  // namespace tally::bench
