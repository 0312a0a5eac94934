#include "codec/encoder/encoder.h"
#include "codec/families.h"

namespace tally::codec {

const Codec& codec_at(const plan::CodecSpec& spec, const Codec& codec, std::uint64_t step) {
  if (spec.kind != plan::Codec::kOnebitAdam || step >= spec.warmup) return codec;
  static const std::unique_ptr<const Codec> plain = make_plain();
  return *plain;
}

}  // namespace tally::codec
