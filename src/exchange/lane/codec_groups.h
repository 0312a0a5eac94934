#pragma once
#include <vector>

#include "codec/encoder/encoder.h"
#include "exchange/memory/parameter_layout.h"
#include "plan/codec_spec.h"
#include "tally/optimizer.h"

namespace tally::exchange {

struct CodecGroups {
  std::vector<OptimizerSpec> optimizers;    // by group
  std::vector<codec::SenderFacts> senders;  // by group; `ranks` is not set
};

// Moves the compressed parameters to new groups, which come last, where senders do a part of the
// optimizer's work (dgc, onebit-adam): the optimizer behind the codec is then a different one.
// kInvalid if a codec does not support the optimizer of a parameter.
Result<CodecGroups> split_groups(const plan::CodecSpec& spec,
                                 const std::vector<OptimizerSpec>& optimizers,
                                 std::vector<ParameterInfo>& parameters);

}  // namespace tally::exchange
