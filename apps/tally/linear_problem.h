#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tally/error.h"

namespace tally::app {

// A linear regression y = w·x + b + noise with everything drawn from `seed`. Sample i is the same
// whoever generates it, so that a worker makes only its own.
struct LinearSpec {
  std::size_t samples = 10000;
  std::size_t features = 8;
  std::uint64_t seed = 1;
  double noise = 0.1;  // standard deviation
};

struct SampleRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

// Samples in rows of `columns` values; the last of each row is 1, so that its weight is the
// intercept.
struct LinearData {
  std::size_t columns = 0;
  std::vector<float> x;
  std::vector<float> y;
  std::size_t samples() const { return y.size(); }
};

// The samples of one rank. Shards are unequal on purpose: rank r has r+1 shares, all in one piece.
SampleRange shard_of(std::size_t samples, Rank rank, int size);

LinearData generate(const LinearSpec& spec, const SampleRange& range);

// Gradient of half the mean squared error over `data`; zero where there are no samples.
void mean_gradient(const LinearData& data, std::span<const double> weights,
                   std::span<float> gradient);

// The weights of least squared error: the normal equations, solved by Cholesky's factorisation.
// kInvalid if the samples do not determine them.
Result<std::vector<double>> least_squares(const LinearData& data);

}  // namespace tally::app
