#include "bench/common/statistics.h"

#include <algorithm>

#include "base/check.h"

namespace tally::bench {

double quantile(std::vector<double> samples, double q) {
  TALLY_CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const double place = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (place - static_cast<double>(below)) * (samples[above] - samples[below]);
}

double median(const std::vector<double>& samples) { return quantile(samples, 0.5); }

double spread(const std::vector<double>& samples) {
  return quantile(samples, 0.75) - quantile(samples, 0.25);
}

double bus_bandwidth(std::size_t bytes, double us, int ranks) {
  return static_cast<double>(bytes) / us * 1e-3 * 2 * (ranks - 1) / ranks;
}

}  // namespace tally::bench
