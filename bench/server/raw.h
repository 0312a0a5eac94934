#pragma once
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench::servers {

// Returns the speed of iperf3 over one loopback connection in GB/s; kSystem if iperf3 is not
// installed.
Result<double> iperf3_rate(Duration time);
// Returns the speed of memcpy of 64 MiB by one thread in GB/s.
double copy_rate(Duration time);

}  // namespace tally::bench::servers
