#pragma once
#include <vector>

#include "codec/quantize/lowbit_test_support.h"

namespace tally::codec {

// The mean and variance of each decoded value over many draws.
struct Moments {
  std::vector<double> means, variances;
};
inline Moments moments_of(const Codec& codec, const Values& values, std::uint64_t draws) {
  std::vector<double> sums(values.size()), squares(values.size());
  ByteVector bytes(codec.max_bytes(values.size()));
  Values out(values.size());
  for (std::uint64_t step = 0; step < draws; ++step) {
    bytes.resize(codec.encode(values, {.seed = 5, .step = step, .rank = 2, .first = 77}, bytes));
    EXPECT_TRUE(codec.decode(bytes, out).has_value());
    for (std::size_t i = 0; i < out.size(); ++i) {
      sums[i] += static_cast<double>(out[i]);
      squares[i] += static_cast<double>(out[i]) * static_cast<double>(out[i]);
    }
  }
  Moments moments;
  const auto n = static_cast<double>(draws);
  for (std::size_t i = 0; i < values.size(); ++i) {
    moments.means.push_back(sums[i] / n);
    moments.variances.push_back(squares[i] / n - sums[i] / n * (sums[i] / n));
  }
  return moments;
}

// The variance of unbiased stochastic rounding between two levels that are `step` apart.
inline double rounding_variance(double value, double step) {
  const double share = std::fabs(value) / step - std::floor(std::fabs(value) / step);
  return step * step * share * (1 - share);
}

}  // namespace tally::codec
