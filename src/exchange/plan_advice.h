#pragma once
#include <string>
#include <vector>

#include "codec/encoder/encoder.h"
#include "plan/plan.h"
#include "tally/error.h"
#include "tally/optimizer.h"

namespace tally::exchange {

// A plan together with the optimizers that the user gave, the senders' part of them
// (codec_groups.h), and the number of workers.
struct PlanInUse {
  const plan::Plan& plan;
  const std::vector<OptimizerSpec>& optimizers;
  const std::vector<codec::SenderFacts>& senders;
  int workers = 1;
};

// kInvalid, with the reason, for combinations that make no sense with these optimizers.
// plan::check() has refused those that never do.
Result<void> check_optimizers(const PlanInUse& use);

// The codec of the plan. With an optimizer that squares gradients, codec=auto without a list
// chooses only from those codecs of its default list that warnings() does not warn of.
plan::CodecSpec codec_in_use(const PlanInUse& use);

// A sentence for each setting that works but probably harms, with what to do instead.
std::vector<std::string> warnings(const PlanInUse& use);

}  // namespace tally::exchange
