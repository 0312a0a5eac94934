#include "exchange/clip.h"

#include <cmath>

#include "kernel/array/norm.h"
#include "kernel/array/weighted_sum.h"

namespace tally::exchange {

double clip_factor(double norm, double limit) {
  constexpr double kTiny = 1e-6;
  const double factor = limit / (norm + kTiny);
  return factor > 1 ? 1 : factor;
}

double square_sum(const RealSpan& values) {
  return values.visit([]<typename T>(std::span<T> elements) {
    return kernel::square_sum(std::span<const T>(elements));
  });
}

void scale(std::span<const RealSpan> gradient, double factor) {
  for (const RealSpan& run : gradient)
    run.visit([factor]<typename T>(std::span<T> values) {
      kernel::scale(values.data(), values.size(), static_cast<T>(factor));
    });
}

void clip(std::span<const RealSpan> gradient, const ClipLimits& limits) {
  if (limits.value)
    for (const RealSpan& run : gradient)
      run.visit([&]<typename T>(std::span<T> values) {
        kernel::clamp(values.data(), values.size(), static_cast<T>(*limits.value));
      });
  if (!limits.norm) return;
  double squares = 0;
  for (const RealSpan& run : gradient) squares += square_sum(run);
  const double factor = clip_factor(std::sqrt(squares), *limits.norm);
  if (factor != 1) scale(gradient, factor);
}

}  // namespace tally::exchange
