#pragma once
#include <vector>

#include "codec/encoder/encoder.h"
#include "plan/codec_spec.h"
#include "tally/optimizer.h"
#include "train/parameter_layout.h"

namespace tally::train {

struct CodecGroups {
  std::vector<OptimizerSpec> optimizers;    // by group
  std::vector<codec::SenderFacts> senders;  // by group; but for their number of ranks
};

// Where senders do a part of the optimizer's work (dgc, onebit-adam) the optimizer behind them is
// another one: compressed parameters then move to groups of their own, which come last. kInvalid
// where a codec cannot do with the optimizer of a parameter.
Result<CodecGroups> split_groups(const plan::CodecSpec& spec,
                                 const std::vector<OptimizerSpec>& optimizers,
                                 std::vector<ParameterInfo>& parameters);

}  // namespace tally::train
