#include "exchange/lane/codec_groups.h"

#include <algorithm>

#include "codec/encoder/sender_rules.h"
#include "exchange/lane/codec_state.h"

namespace tally::exchange {

Result<CodecGroups> split_groups(const plan::CodecSpec& spec,
                                 const std::vector<OptimizerSpec>& optimizers,
                                 std::vector<ParameterInfo>& parameters) {
  CodecGroups groups{.optimizers = optimizers, .senders = {}};
  for (const OptimizerSpec& optimizer : optimizers)
    groups.senders.push_back(codec::sender_facts(spec, optimizer, 1));
  if (spec.kind == plan::Codec::kNone || spec.kind == plan::Codec::kAuto) return groups;
  for (std::size_t g = 0; g < optimizers.size(); ++g) {
    const auto moves = [&](const ParameterInfo& parameter) {
      return parameter.group == g && is_compressed(spec, parameter);
    };
    if (std::none_of(parameters.begin(), parameters.end(), moves)) continue;
    TALLY_TRY(const OptimizerSpec behind, codec::optimizer_behind(spec, optimizers[g]));
    if (behind == optimizers[g]) continue;
    const std::size_t own = groups.optimizers.size();
    groups.optimizers.push_back(behind);
    groups.senders.push_back(groups.senders[g]);
    for (ParameterInfo& parameter : parameters)
      if (moves(parameter)) parameter.group = own;
  }
  return groups;
}

}  // namespace tally::exchange
