#pragma once
#include "kernel/update/update.h"
#include "optimizer/adam_factors.h"
#include "optimizer/update_rule.h"

// The scalars of one step for the loops of kernel/update, by optimizer. adam_factors.h has those of
// adam, adamw and lamb.
namespace tally::optimizer {

// The first gradient is not dampened.
template <typename T>
kernel::SgdFactors<T> sgd_factors(const OptimizerSpec& spec, const StepFacts& facts) {
  const bool first = facts.step == 1;
  return {.rate = static_cast<T>(facts.rate),
          .momentum = static_cast<T>(spec.momentum),
          .gain = static_cast<T>(first ? 1.0 : 1.0 - spec.dampening),
          .weight_decay = static_cast<T>(spec.weight_decay)};
}

template <typename T>
kernel::AdagradFactors<T> adagrad_factors(const OptimizerSpec& spec, const StepFacts& facts) {
  const auto steps_before = static_cast<double>(facts.step - 1);
  return {.rate = static_cast<T>(facts.rate / (1 + steps_before * spec.rate_decay)),
          .epsilon = static_cast<T>(spec.epsilon),
          .weight_decay = static_cast<T>(spec.weight_decay)};
}

template <typename T>
kernel::AdamFactors<T> adam_factors(const OptimizerSpec& spec, const StepFacts& facts) {
  return adam_factors<T>(spec, facts.rate, corrections_at(spec, facts.step));
}

template <typename T>
kernel::FtrlFactors<T> ftrl_factors(const OptimizerSpec& spec, const StepFacts& facts) {
  return {.scale = static_cast<T>(facts.rate / spec.rate),
          .rate = static_cast<T>(spec.rate),
          .beta = static_cast<T>(spec.beta),
          .l1 = static_cast<T>(spec.l1),
          .l2 = static_cast<T>(spec.l2)};
}

// Of the second half of a step of lars and lamb.
template <typename T>
T layer_rate(const OptimizerSpec& spec, const StepFacts& facts, const Norms& norms) {
  return static_cast<T>(facts.rate * trust_ratio(spec, norms));
}
template <typename T>
kernel::LarsFactors<T> lars_factors(const OptimizerSpec& spec, const StepFacts& facts,
                                    const Norms& norms) {
  return {.rate = layer_rate<T>(spec, facts, norms),
          .momentum = static_cast<T>(spec.momentum),
          .weight_decay = static_cast<T>(spec.weight_decay)};
}

}  // namespace tally::optimizer
