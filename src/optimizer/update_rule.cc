#include "optimizer/update_rule.h"

#include <algorithm>

#include "base/check.h"
#include "kernel/update/update.h"
#include "optimizer/step_factors.h"

namespace tally::optimizer {
namespace {

bool is_adam_like(OptimizerKind kind) {
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW ||
         kind == OptimizerKind::kLamb;
}

template <typename T>
void update_ftrl(const OptimizerSpec& spec, const StepFacts& facts, const Segment<T>& segment) {
  const auto factors = ftrl_factors<T>(spec, facts);
  if (facts.step == 1) begin_state(spec, segment);
  kernel::update_kernels<T>().ftrl(factors, segment.parameters.data(), segment.gradient.data(),
                                   segment.state[0].data(), segment.state[1].data(),
                                   segment.parameters.size());
}

template <typename T>
void check_segment(const OptimizerSpec& spec, const StepFacts& facts, const Segment<T>& segment) {
  TALLY_CHECK(facts.step >= 1);
  TALLY_CHECK(segment.gradient.size() == segment.parameters.size());
  for (int s = 0; s < state_arrays(spec); ++s) {
    TALLY_CHECK(segment.state[static_cast<std::size_t>(s)].size() == segment.parameters.size());
  }
}

template <typename T>
void update_sgd(const OptimizerSpec& spec, const StepFacts& facts, const Segment<T>& segment) {
  const auto& loops = kernel::update_kernels<T>();
  const auto factors = sgd_factors<T>(spec, facts);
  T* const parameters = segment.parameters.data();
  const T* const gradient = segment.gradient.data();
  const std::size_t count = segment.parameters.size();
  if (spec.momentum == 0) return loops.sgd(factors, parameters, gradient, count);
  T* const momentum = segment.state[0].data();
  if (facts.step == 1) begin_state(spec, segment);
  (spec.nesterov ? loops.nesterov : loops.momentum)(factors, parameters, gradient, momentum, count);
}

}  // namespace

int state_arrays(const OptimizerSpec& spec) {
  if (is_adam_like(spec.kind) || spec.kind == OptimizerKind::kFtrl) return 2;
  return spec.kind == OptimizerKind::kSgd && spec.momentum == 0 ? 0 : 1;
}

std::vector<std::string> state_names(const OptimizerSpec& spec) {
  if (is_adam_like(spec.kind)) return {"exp_avg", "exp_avg_sq"};
  if (spec.kind == OptimizerKind::kFtrl) return {"z", "n"};
  if (spec.kind == OptimizerKind::kAdagrad) return {"sum"};
  return state_arrays(spec) == 0 ? std::vector<std::string>()
                                 : std::vector<std::string>{"momentum"};
}

double initial_state(const OptimizerSpec& spec) {
  return spec.kind == OptimizerKind::kAdagrad ? spec.initial_accumulator : 0;
}

double share_power(const OptimizerSpec& spec) {
  switch (spec.kind) {
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return 0.5;
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kFtrl:
      return 0;
    default:
      return 1;
  }
}

bool is_layerwise(const OptimizerSpec& spec) {
  return spec.kind == OptimizerKind::kLamb || spec.kind == OptimizerKind::kLars;
}

template <typename T>
void begin_state(const OptimizerSpec& spec, const Segment<T>& segment) {
  if (spec.kind == OptimizerKind::kSgd && spec.momentum != 0) {
    std::fill_n(segment.state[0].data(), segment.parameters.size(), T(0));
  }
  if (spec.kind != OptimizerKind::kFtrl) return;
  const auto pull = static_cast<T>(spec.beta / spec.rate);
  for (std::size_t i = 0; i < segment.parameters.size(); ++i) {
    segment.state[0][i] = -pull * segment.parameters[i];
    segment.state[1][i] = T(0);
  }
}

template <typename T>
void update(const OptimizerSpec& spec, const StepFacts& facts, const Segment<T>& segment) {
  TALLY_CHECK(!is_layerwise(spec));
  check_segment(spec, facts, segment);
  if (spec.kind == OptimizerKind::kSgd) return update_sgd(spec, facts, segment);
  if (spec.kind == OptimizerKind::kFtrl) return update_ftrl(spec, facts, segment);
  const auto& loops = kernel::update_kernels<T>();
  T* const parameters = segment.parameters.data();
  const T* const gradient = segment.gradient.data();
  const std::size_t count = segment.parameters.size();
  if (spec.kind == OptimizerKind::kAdagrad) {
    return loops.adagrad(adagrad_factors<T>(spec, facts), parameters, gradient,
                         segment.state[0].data(), count);
  }
  loops.adam(adam_factors<T>(spec, facts), parameters, gradient, segment.state[0].data(),
             segment.state[1].data(), count);
}

template <typename T>
void prepare(const OptimizerSpec& spec, const StepFacts& facts, const Segment<T>& segment) {
  TALLY_CHECK(is_layerwise(spec));
  check_segment(spec, facts, segment);
  if (spec.kind != OptimizerKind::kLamb) return;  // lars' norm is of the gradient itself
  kernel::update_kernels<T>().lamb_direction(
      adam_factors<T>(spec, facts), segment.parameters.data(), segment.gradient.data(),
      segment.state[0].data(), segment.state[1].data(), segment.parameters.size());
}

double trust_ratio(const OptimizerSpec& spec, const Norms& norms) {
  if (!spec.adapts || !(norms.parameters > 0) || !(norms.gradient > 0)) return 1;
  if (spec.kind == OptimizerKind::kLamb) {
    return std::clamp(norms.parameters / norms.gradient, spec.ratio_min, spec.ratio_max);
  }
  return spec.trust * norms.parameters /
         (norms.gradient + spec.weight_decay * norms.parameters + spec.epsilon);
}

template <typename T>
void finish(const OptimizerSpec& spec, const StepFacts& facts, const Norms& norms,
            const Segment<T>& segment) {
  TALLY_CHECK(is_layerwise(spec));
  check_segment(spec, facts, segment);
  const auto& loops = kernel::update_kernels<T>();
  T* const parameters = segment.parameters.data();
  const T* const gradient = segment.gradient.data();
  const std::size_t count = segment.parameters.size();
  if (spec.kind == OptimizerKind::kLamb) {
    return loops.sgd({.rate = layer_rate<T>(spec, facts, norms)}, parameters, gradient, count);
  }
  loops.lars(lars_factors<T>(spec, facts, norms), parameters, gradient, segment.state[0].data(),
             count);
}

template void begin_state(const OptimizerSpec&, const Segment<float>&);
template void begin_state(const OptimizerSpec&, const Segment<double>&);
template void update(const OptimizerSpec&, const StepFacts&, const Segment<float>&);
template void update(const OptimizerSpec&, const StepFacts&, const Segment<double>&);
template void prepare(const OptimizerSpec&, const StepFacts&, const Segment<float>&);
template void prepare(const OptimizerSpec&, const StepFacts&, const Segment<double>&);
template void finish(const OptimizerSpec&, const StepFacts&, const Norms&, const Segment<float>&);
template void finish(const OptimizerSpec&, const StepFacts&, const Norms&, const Segment<double>&);

}  // namespace tally::optimizer
