#include "codec/encoder/encoder.h"

#include <utility>

#include "codec/encoder/encoder_kinds.h"

namespace tally::codec {

std::unique_ptr<Encoder> Encoder::make(const plan::CodecSpec& spec, const Codec& codec,
                                       std::size_t count, const SenderFacts& facts) {
  if (spec.kind == plan::Codec::kDgc) return make_dgc_encoder(spec, codec, count, facts);
  if (spec.kind == plan::Codec::kOnebitAdam)
    return make_momentum_encoder(spec, codec, count, facts);
  auto encoder =
      spec.feedback ? make_feedback_encoder(codec, count) : make_forgetful_encoder(codec, count);
  if (!spec.early_momentum) return encoder;
  return make_early_momentum_encoder(std::move(encoder), count, facts);
}

std::vector<std::string> state_names(const plan::CodecSpec& spec) {
  if (spec.kind == plan::Codec::kDgc) return {"momentum", "residual"};
  if (spec.kind == plan::Codec::kOnebitAdam) return {"mean", "residual"};
  std::vector<std::string> names;
  if (spec.early_momentum) names.emplace_back("momentum");
  if (spec.feedback) names.emplace_back("residual");
  return names;
}

}  // namespace tally::codec
