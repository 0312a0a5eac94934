#include "codec/encoder/sender_rules.h"

#include <fmt/format.h>

#include "base/errors.h"

namespace tally::codec {
namespace {

// Momentum sums the decay of one step up to 1 / (1 - momentum) of it.
OptimizerSpec without_momentum(OptimizerSpec optimizer) {
  optimizer.weight_decay /= 1 - optimizer.momentum;
  optimizer.momentum = 0;
  optimizer.nesterov = false;
  return optimizer;
}

// Whether senders apply the momentum of this optimizer. Dampening is excluded: it differs in the
// first step, which senders do not know.
bool is_early(const plan::CodecSpec& spec, const OptimizerSpec& optimizer) {
  return spec.early_momentum && optimizer.kind == OptimizerKind::kSgd && optimizer.momentum > 0 &&
         optimizer.momentum < 1 && optimizer.dampening == 0;
}

Result<OptimizerSpec> behind_dgc(const plan::CodecSpec& spec, OptimizerSpec optimizer) {
  if (optimizer.kind != OptimizerKind::kSgd) {
    return invalid(fmt::format(
        "codec={} needs sgd, momentum or nesterov, not {}: senders have the momentum themselves; "
        "nearest: codec=topk:{}",
        plan::to_string(spec), tally::to_string(optimizer), spec.density));
  }
  if (optimizer.dampening != 0) {
    return invalid(fmt::format("codec={} has no dampening, but it is {}; nearest: dampening=0",
                               plan::to_string(spec), optimizer.dampening));
  }
  return without_momentum(optimizer);
}

Result<OptimizerSpec> behind_onebit_adam(const plan::CodecSpec& spec, OptimizerSpec optimizer) {
  if (optimizer.kind != OptimizerKind::kAdam && optimizer.kind != OptimizerKind::kAdamW) {
    return invalid(fmt::format(
        "codec={} needs adam or adamw, not {}: it sends their first moment; nearest: codec=sign",
        plan::to_string(spec), tally::to_string(optimizer)));
  }
  if (optimizer.freeze_after != 0 && optimizer.freeze_after != spec.warmup) {
    return invalid(fmt::format("codec={} freezes after {} updates, {} after {}; leave out freeze",
                               plan::to_string(spec), spec.warmup, tally::to_string(optimizer),
                               optimizer.freeze_after));
  }
  optimizer.freeze_after = spec.warmup;
  return optimizer;
}

}  // namespace

Result<OptimizerSpec> optimizer_behind(const plan::CodecSpec& spec,
                                       const OptimizerSpec& optimizer) {
  if (spec.kind == plan::Codec::kDgc) return behind_dgc(spec, optimizer);
  if (spec.kind == plan::Codec::kOnebitAdam) return behind_onebit_adam(spec, optimizer);
  if (is_early(spec, optimizer)) return without_momentum(optimizer);
  return optimizer;
}

SenderFacts sender_facts(const plan::CodecSpec& spec, const OptimizerSpec& optimizer, int ranks) {
  const bool is_senders = spec.kind == plan::Codec::kDgc || is_early(spec, optimizer);
  return {.momentum = is_senders ? optimizer.momentum : 0,
          .nesterov = optimizer.nesterov,
          .beta1 = optimizer.beta1,
          .ranks = ranks};
}

}  // namespace tally::codec
