#include "kernel/array/norm.h"

#include "kernel/array/array_loops.h"

namespace tally::kernel {

static_assert(kNormLanes == 32, "array_loops.inc is written for 32 lanes");

template <typename T>
double square_sum(std::span<const T> values, std::optional<Level> level) {
  double lanes[kNormLanes] = {};
  array_loops(level).of<T>().add_squares(values.data(), values.size(), lanes);
  for (std::size_t half = kNormLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

template <typename T>
double square_sum_reference(std::span<const T> values) {
  // Lane by lane, so that the reference shares neither order nor storage with the fast loops.
  double sums[kNormLanes];
  for (std::size_t lane = 0; lane < kNormLanes; ++lane) {
    double sum = 0;
    for (std::size_t i = lane; i < values.size(); i += kNormLanes) {
      sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    sums[lane] = sum;
  }
  const auto folded = [&sums](const auto& self, std::size_t lane, std::size_t stride) -> double {
    if (stride == kNormLanes) return sums[lane];
    return self(self, lane, stride * 2) + self(self, lane + stride, stride * 2);
  };
  return folded(folded, 0, 1);
}

template double square_sum(std::span<const float>, std::optional<Level>);
template double square_sum(std::span<const double>, std::optional<Level>);
template double square_sum_reference(std::span<const float>);
template double square_sum_reference(std::span<const double>);

}  // namespace tally::kernel
