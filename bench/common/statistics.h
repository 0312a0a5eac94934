#pragma once
#include <cstddef>
#include <vector>

namespace tally::bench {

// Quantile `q` in [0, 1] with linear interpolation between neighbours. `samples` is not empty.
double quantile(std::vector<double> samples, double q);
double median(const std::vector<double>& samples);
// Between the quartiles.
double spread(const std::vector<double>& samples);

// Bus bandwidth in GB/s: what each rank must send and receive in a ring, 2(N-1)/N of the bytes,
// over the time. It can be compared between numbers of ranks.
double bus_bandwidth(std::size_t bytes, double us, int ranks);

}  // namespace tally::bench
