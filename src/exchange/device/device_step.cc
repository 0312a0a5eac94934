#include "exchange/device/device_step.h"

#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "optimizer/step_factors.h"

namespace tally::exchange {
namespace {

template <typename F>
void put(const F& factors, DevicePiece& piece) {
  static_assert(sizeof(F) <= sizeof(piece.factors) && std::is_trivially_copyable_v<F>);
  std::memcpy(piece.factors.data(), &factors, sizeof(F));
}

// A step along the direction.
template <typename C>
kernel::SgdFactors<C> lamb_factors(const StepScalars& of) {
  return {.rate = optimizer::layer_rate<C>(of.spec, of.facts, of.norms),
          .momentum = 0,
          .gain = 1,
          .weight_decay = 0};
}

template <typename C>
void set_factors_of(const StepScalars& of, DevicePiece& piece) {
  switch (of.spec.kind) {
    case OptimizerKind::kSgd:
      return put(optimizer::sgd_factors<C>(of.spec, of.facts), piece);
    case OptimizerKind::kAdagrad:
      return put(optimizer::adagrad_factors<C>(of.spec, of.facts), piece);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return put(optimizer::adam_factors<C>(of.spec, of.facts), piece);
    case OptimizerKind::kLamb:
      return put(lamb_factors<C>(of), piece);
    case OptimizerKind::kLars:
      return put(optimizer::lars_factors<C>(of.spec, of.facts, of.norms), piece);
    case OptimizerKind::kFtrl:
      piece.begins = of.facts.step == 1 ? 1 : 0;
      piece.pull = of.spec.beta / of.spec.rate;
      return put(optimizer::ftrl_factors<C>(of.spec, of.facts), piece);
  }
}

}  // namespace

UpdateLoop loop_of(const OptimizerSpec& spec) {
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      if (spec.momentum == 0) return UpdateLoop::kSgd;
      return spec.nesterov ? UpdateLoop::kNesterov : UpdateLoop::kMomentum;
    case OptimizerKind::kAdagrad:
      return UpdateLoop::kAdagrad;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return UpdateLoop::kAdam;
    case OptimizerKind::kLamb:
      return UpdateLoop::kSgd;
    case OptimizerKind::kLars:
      return UpdateLoop::kLars;
    case OptimizerKind::kFtrl:
      return UpdateLoop::kFtrl;
  }
  TALLY_CHECK(false);
}

void set_factors(const StepScalars& scalars, DevicePiece& piece) {
  if (scalars.type == DataType::kFloat64)
    set_factors_of<double>(scalars, piece);
  else
    set_factors_of<float>(scalars, piece);
}

void set_direction_factors(const StepScalars& scalars, DevicePiece& piece) {
  if (scalars.type == DataType::kFloat64)
    put(optimizer::adam_factors<double>(scalars.spec, scalars.facts), piece);
  else
    put(optimizer::adam_factors<float>(scalars.spec, scalars.facts), piece);
}

}  // namespace tally::exchange
