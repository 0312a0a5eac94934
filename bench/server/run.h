#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "bench/common/report.h"
#include "tally/error.h"

namespace tally::bench::servers {

struct Setting {
  std::string transport;  // shm, tcp, tls
  int workers = 1;
  int servers = 1;
  std::string only;  // cases whose name contains this
  std::chrono::milliseconds slice = std::chrono::milliseconds(500);
};

// One run of all cases in one setting: servers and workers as processes.
struct Outcome {
  double raw = 0;                      // GB/s, measured just before
  std::map<std::string, double> sums;  // by case: the sum over workers; for latencies the largest
};
Result<Outcome> run_once(const Setting& setting);

// All runs of one setting.
struct Series {
  Setting setting;
  std::vector<Outcome> outcomes;
};

// The table has the medians of all runs, each beside the raw figure of the same run. There is a
// line for each series and case.
Report report_on(const std::vector<Series>& all, bool failed);

}  // namespace tally::bench::servers
