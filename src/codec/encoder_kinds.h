#pragma once
#include <memory>

#include "codec/encoder.h"

// The kinds that Encoder::make() chooses from.
namespace tally::codec {

// Gradients as the codec has them; no memory.
std::unique_ptr<Encoder> make_forgetful_encoder(const Codec& codec, std::size_t count);

// What the codec left out is added to the next gradient. Where the receiver gets something that is not finite, nothing is left over: it
// has seen it, and one such gradient does not spoil all later ones.
std::unique_ptr<Encoder> make_feedback_encoder(const Codec& codec, std::size_t count);

// What of `values` the receiver of `sent` does not have; 0 where that is not finite.
void keep_what_is_left(const Codec& codec, std::span<const std::byte> sent,
                       std::span<float> values);

}  // namespace tally::codec
