#pragma once
#include <cstddef>
#include <vector>

namespace tally::bench {

// Returns quantile `q` in [0, 1] with linear interpolation between neighbours. `samples` is not
// empty.
double quantile(std::vector<double> samples, double q);
double median(const std::vector<double>& samples);
// Interquartile range.
double spread(const std::vector<double>& samples);

// Returns the bus bandwidth in GB/s: the bytes that each rank must send and receive in a ring,
// 2(N-1)/N of all, over the time. It is comparable between numbers of ranks.
double bus_bandwidth(std::size_t bytes, double us, int ranks);

}  // namespace tally::bench
