#pragma once
#include <optional>
#include <span>

#include "exchange/real_span.h"

namespace tally::exchange {

// The factor that reduces a norm above `limit` to `limit`; 1 for smaller norms. A NaN norm makes
// all gradients NaN, as in libtorch.
double clip_factor(double norm, double limit);

struct ClipLimits {
  std::optional<double> value;  // of each element; applied before `norm`
  std::optional<double> norm;   // the Euclidean norm of all elements

  bool any() const { return value || norm; }
};

// Clips a gradient that lies in several runs.
void clip(std::span<const RealSpan> gradient, const ClipLimits& limits);

// The sum of the squares of all elements.
double square_sum(const RealSpan& values);

// Multiplies all elements by the factor.
void scale(std::span<const RealSpan> gradient, double factor);

}  // namespace tally::exchange
