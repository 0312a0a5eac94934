#pragma once
#include <string>
#include <vector>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench {

// Seconds, one value per run.
struct StartupTimes {
  std::vector<double>
      first_sum;                // from the start of `tally run` to the last rank's first all-reduce
  std::vector<double> program;  // from the start of the program to its first line
};

struct StartupOptions {
  std::string tally;  // the program
  int ranks = 4;
  int runs = 20;
  Duration run_timeout = std::chrono::seconds(60);
};

// kSystem, with the output, if a run fails or a rank reports nothing.
Result<StartupTimes> measure_startup(const StartupOptions& options);

// One rank: joins, reduces, and reports the times. kMismatch if the sum is wrong.
Result<void> run_startup_worker();

}  // namespace tally::bench
