#pragma once
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench::servers {

// What the machine can do, in GB/s: iperf3 over one connection on loopback; kSystem if it is not
// there.
Result<double> iperf3_rate(Duration time);
// memcpy of 64 MiB by one thread.
double copy_rate(Duration time);

}  // namespace tally::bench::servers
