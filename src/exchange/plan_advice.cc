#include "exchange/plan_advice.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"
#include "codec/choose.h"
#include "optimizer/update_rule.h"
#include "policy/rules.h"

namespace tally::exchange {
namespace {

bool senders_have_momentum(const PlanInUse& use) {
  return std::any_of(use.senders.begin(), use.senders.end(),
                     [](const codec::SenderFacts& facts) { return facts.momentum > 0; });
}

// Codecs whose single encoding differs from the gradient in most values. Feedback makes up for that
// over several steps, but an optimizer that squares each gradient sees the single encodings.
bool is_biased(const plan::CodecSpec& spec) {
  switch (spec.kind) {
    case plan::Codec::kOnebit:
    case plan::Codec::kSign:
    case plan::Codec::kTopk:
    case plan::Codec::kRandk:
    case plan::Codec::kThreshold:
    case plan::Codec::kPowersgd:
      return true;
    default:
      return false;
  }
}

bool is_biased_text(const std::string& codec) {
  const auto spec = plan::parse_codec(codec);
  return spec && is_biased(*spec);
}

// The biased codecs that the plan uses or may choose.
std::vector<std::string> biased_codecs(const plan::CodecSpec& spec) {
  std::vector<std::string> codecs = spec.candidates;
  if (spec.kind != plan::Codec::kAuto) codecs = {plan::to_string(spec)};
  std::erase_if(codecs, [](const std::string& codec) { return !is_biased_text(codec); });
  return codecs;
}

bool squares_gradients(const OptimizerSpec& spec) {
  return spec.kind == OptimizerKind::kAdam || spec.kind == OptimizerKind::kAdamW ||
         spec.kind == OptimizerKind::kAdagrad || spec.kind == OptimizerKind::kFtrl ||
         spec.kind == OptimizerKind::kLamb;
}

}  // namespace

Result<void> check_optimizers(const PlanInUse& use) {
  const plan::Plan& plan = use.plan;
  if (plan.stale == plan::Stale::kCompensate && senders_have_momentum(use))
    return invalid(
        "stale=compensate needs a push that is one gradient, but with codec={} senders apply the "
        "momentum; nearest: codec={}:momentum=late, or stale=scale",
        plan::to_string(plan.codec), plan::word_of(plan.codec.kind));
  if (plan.fetch_every > 1 && (senders_have_momentum(use) || plan.codec.kind == plan::Codec::kDgc))
    return invalid(
        "fetch={} lets a worker update its own copy of the model with its gradients, but with "
        "codec={} it sends momentum; nearest: fetch=1, or codec=int8",
        plan.fetch_every, plan::to_string(plan.codec));
  if (plan.home != plan::Home::kServer) return {};
  TALLY_TRY(const policy::Rules rules, policy::rules_of(plan, use.workers, 1));
  if (rules.has_rounds() && !rules.counts_gradients()) return {};
  for (const OptimizerSpec& spec : use.optimizers)
    if (optimizer::is_layerwise(spec))
      return invalid(
          "{} needs the norms of whole parameters, which servers have only where all workers wait "
          "for a round; nearest: update=bsp, backup or subset instead of {}",
          to_string(spec), plan::update_text(plan));
  return {};
}

plan::CodecSpec codec_in_use(const PlanInUse& use) {
  plan::CodecSpec codec = use.plan.codec;
  const bool squares = std::any_of(use.optimizers.begin(), use.optimizers.end(), squares_gradients);
  if (codec.kind == plan::Codec::kAuto && codec.candidates.empty() && squares) {
    codec.candidates = codec::candidates_of(codec);
    std::erase_if(codec.candidates, is_biased_text);
  }
  return codec;
}

std::vector<std::string> warnings(const PlanInUse& use) {
  std::vector<std::string> all;
  const plan::Plan& plan = use.plan;
  const auto squares =
      std::find_if(use.optimizers.begin(), use.optimizers.end(), squares_gradients);
  const std::vector<std::string> biased = biased_codecs(plan.codec);
  if (!biased.empty() && squares != use.optimizers.end()) {
    const bool is_adam =
        squares->kind == OptimizerKind::kAdam || squares->kind == OptimizerKind::kAdamW;
    const std::string remedy =
        plan.codec.kind == plan::Codec::kAuto
            ? fmt::format("leave {} out of the list", fmt::join(biased, ", "))
            : fmt::format("{} keeps the accuracy",
                          is_adam ? "codec=onebit-adam or int8" : "codec=int8");
    all.push_back(fmt::format(
        "codec={} with {}: the optimizer squares each decoded gradient, which differs a lot from "
        "the true one; {}",
        plan::to_string(plan.codec), to_string(*squares), remedy));
  }
  const bool one_by_one = plan.update == plan::Update::kAsp || plan.update == plan::Update::kSsp;
  const auto least = static_cast<std::uint64_t>(std::max(0, use.workers - 1));
  if (plan.stale == plan::Stale::kDrop && one_by_one && plan.drop_above < least)
    all.push_back(fmt::format(
        "stale=drop:{} with {} workers: gradients are {} updates late on average even if all "
        "workers are equally fast, so many are dropped; use stale=drop:{} or more",
        plan.drop_above, use.workers, least, 2 * least));
  return all;
}

}  // namespace tally::exchange
