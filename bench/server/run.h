#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench::servers {

// Returns the speed of iperf3 over one loopback connection in GB/s; kSystem if iperf3 is not
// installed.
Result<double> iperf3_rate(Duration time);
// Returns the speed of memcpy of 64 MiB by one thread in GB/s.
double copy_rate(Duration time);

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

}  // namespace tally::bench::servers
