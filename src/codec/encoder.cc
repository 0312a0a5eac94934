#include "codec/encoder.h"

#include "codec/encoder_kinds.h"

namespace tally::codec {

std::unique_ptr<Encoder> Encoder::make(const plan::CodecSpec& spec, const Codec& codec,
                                       std::size_t count, const SenderFacts& facts) {
  if (spec.kind == plan::Codec::kDgc) return make_dgc_encoder(spec, codec, count, facts);
  if (spec.kind == plan::Codec::kOnebitAdam)
    return make_momentum_encoder(spec, codec, count, facts);
  if (spec.feedback) return make_feedback_encoder(codec, count);
  return make_forgetful_encoder(codec, count);
}

std::vector<std::string> state_names(const plan::CodecSpec& spec) {
  if (spec.kind == plan::Codec::kDgc) return {"momentum", "residual"};
  if (spec.kind == plan::Codec::kOnebitAdam) return {"mean", "residual"};
  if (spec.feedback) return {"residual"};
  return {};
}

}  // namespace tally::codec
