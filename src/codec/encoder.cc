#include "codec/encoder.h"

#include "codec/encoder_kinds.h"

namespace tally::codec {

std::unique_ptr<Encoder> Encoder::make(const plan::CodecSpec& spec, const Codec& codec,
                                       std::size_t count, const SenderFacts& /*facts*/) {
  if (spec.feedback) return make_feedback_encoder(codec, count);
  return make_forgetful_encoder(codec, count);
}

std::vector<std::string> state_names(const plan::CodecSpec& spec) {
  if (spec.feedback) return {"residual"};
  return {};
}

}  // namespace tally::codec
