#pragma once
// For tests: the optimizers as published, one number at a time in double.
#include <cmath>
#include <cstdint>

#include "tally/optimizer.h"

namespace tally::server {

class ReferenceNumber final {
 public:
  ReferenceNumber(const OptimizerSpec& spec, double value)
      : spec_(spec), value_(value), second_(spec.initial_accumulator) {}

  double value() const { return value_; }
  double mean_square() const { return mean_square_; }

  void step(double rate, double gradient) {
    ++steps_;
    switch (spec_.kind) {
      case OptimizerKind::kSgd:
        return sgd(rate, gradient + spec_.weight_decay * value_);
      case OptimizerKind::kAdagrad: {
        const double slope = gradient + spec_.weight_decay * value_;
        second_ += slope * slope;
        value_ -= rate / (1 + (steps_ - 1) * spec_.rate_decay) * slope /
                  (std::sqrt(second_) + spec_.epsilon);
        return;
      }
      case OptimizerKind::kAdamW:
        value_ -= rate * spec_.weight_decay * value_;
        return adam(rate, gradient);
      case OptimizerKind::kAdam:
        return adam(rate, gradient + spec_.weight_decay * value_);
      case OptimizerKind::kFtrl:
        return ftrl(gradient * (rate / spec_.rate));
      case OptimizerKind::kLamb:
      case OptimizerKind::kLars:
        value_ = NAN;
    }
  }

  // g + lambda * g * g * (value - backup); if adaptive, lambda is divided by the root of the mean
  // square.
  double compensated(double gradient, double lambda, bool adaptive, double backup) {
    if (adaptive) {
      mean_square_ = 0.95 * mean_square_ + 0.05 * gradient * gradient;
      lambda /= std::sqrt(mean_square_ + 1e-7);
    }
    return gradient + lambda * gradient * gradient * (value_ - backup);
  }

 private:
  void sgd(double rate, double slope) {
    if (spec_.momentum == 0) {
      value_ -= rate * slope;
      return;
    }
    first_ = steps_ == 1 ? slope : spec_.momentum * first_ + (1 - spec_.dampening) * slope;
    value_ -= rate * (spec_.nesterov ? slope + spec_.momentum * first_ : first_);
  }
  void adam(double rate, double slope) {
    first_ = spec_.beta1 * first_ + (1 - spec_.beta1) * slope;
    second_ = spec_.beta2 * second_ + (1 - spec_.beta2) * slope * slope;
    const double mean = first_ / (1 - std::pow(spec_.beta1, steps_));
    const double square = second_ / (1 - std::pow(spec_.beta2, steps_));
    value_ -= rate * mean / (std::sqrt(square) + spec_.epsilon);
  }
  void ftrl(double slope) {
    if (steps_ == 1) first_ = -spec_.beta / spec_.rate * value_;
    const double sigma = (std::sqrt(second_ + slope * slope) - std::sqrt(second_)) / spec_.rate;
    first_ += slope - sigma * value_;
    second_ += slope * slope;
    const double pull = (spec_.beta + std::sqrt(second_)) / spec_.rate + spec_.l2;
    value_ = std::abs(first_) <= spec_.l1 ? 0 : -(first_ - std::copysign(spec_.l1, first_)) / pull;
  }

  OptimizerSpec spec_;
  double value_;
  double first_ = 0;  // momentum, mean, z
  double second_;     // sum of squares, mean of squares, n
  double mean_square_ = 0;
  double steps_ = 0;
};

// All optimizers that a table may have, with settings that affect the result.
inline std::vector<OptimizerSpec> table_optimizers() {
  return {
      sgd(),
      sgd({.rate = 0.05, .weight_decay = 0.01}),
      sgd({.rate = 0.02, .momentum = 0.9}),
      sgd({.rate = 0.02, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01}),
      sgd({.rate = 0.02, .momentum = 0.9, .nesterov = true}),
      adagrad({.rate = 0.1}),
      adagrad({.rate = 0.1, .rate_decay = 0.1, .weight_decay = 0.01, .initial_accumulator = 0.3}),
      adam({.rate = 0.01}),
      adam({.rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1}),
      adamw({.rate = 0.01, .weight_decay = 0.2}),
      ftrl({.rate = 0.1}),
      ftrl({.rate = 0.05, .beta = 2, .l1 = 0.5, .l2 = 0.3})};
}

}  // namespace tally::server
