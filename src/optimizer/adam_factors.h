#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernel/update/update.h"
#include "tally/optimizer.h"

namespace tally::optimizer {

// Adam's bias corrections at a step.
struct Corrections {
  double first = 1;     // 1 - beta1^step
  double root = 1;      // square root of 1 - beta2^step
  bool frozen = false;  // the gradient is the first moment; the second moment stays
};

// Steps count from 1.
inline Corrections corrections_at(const OptimizerSpec& spec, std::uint64_t step) {
  const bool frozen = spec.freeze_after > 0 && step > spec.freeze_after;
  const auto exponent = static_cast<double>(frozen ? spec.freeze_after : step);
  return {.first = frozen ? 1.0 : 1 - std::pow(spec.beta1, exponent),
          .root = std::sqrt(1 - std::pow(spec.beta2, exponent)),
          .frozen = frozen};
}

// Scalars of a step of adam, adamw or lamb.
template <typename T>
kernel::AdamFactors<T> adam_factors(const OptimizerSpec& spec, double rate,
                                    const Corrections& corrections) {
  const double beta1 = corrections.frozen ? 0 : spec.beta1;
  const double beta2 = corrections.frozen ? 1 : spec.beta2;
  const bool decoupled = spec.kind == OptimizerKind::kAdamW;
  return {.rate = static_cast<T>(rate / corrections.first),
          .beta1 = static_cast<T>(beta1),
          .gain1 = static_cast<T>(1 - beta1),
          .beta2 = static_cast<T>(beta2),
          .gain2 = static_cast<T>(1 - beta2),
          .correction = static_cast<T>(corrections.first),
          .root = static_cast<T>(corrections.root),
          .epsilon = static_cast<T>(spec.epsilon),
          .weight_decay = static_cast<T>(decoupled ? 0.0 : spec.weight_decay),
          .shrink = static_cast<T>(decoupled ? 1 - rate * spec.weight_decay : 1.0),
          .untouched = static_cast<T>(corrections.frozen ? 0 : 1),
          // Nearly all steps of Adam are within its learning rate.
          .largest_step =
              corrections.frozen ? static_cast<T>(rate) : std::numeric_limits<T>::infinity()};
}

}  // namespace tally::optimizer
