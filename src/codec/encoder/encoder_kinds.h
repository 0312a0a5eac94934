#pragma once
#include <memory>

#include "codec/encoder/encoder.h"

// The kinds that Encoder::make() chooses from.
namespace tally::codec {

// Gradients as the codec has them; no memory.
std::unique_ptr<Encoder> make_forgetful_encoder(const Codec& codec, std::size_t count);

// What the codec left out is added to the next gradient. Where the receiver gets something that is
// not finite, nothing is left over: it has seen it, and one such gradient does not spoil all later
// ones.
std::unique_ptr<Encoder> make_feedback_encoder(const Codec& codec, std::size_t count);

// Gradients become sgd's momentum first; what of it is not finite becomes 0 once it is sent.
std::unique_ptr<Encoder> make_early_momentum_encoder(std::unique_ptr<Encoder> inner,
                                                     std::size_t count, const SenderFacts& facts);

// dgc: momentum at the sender, of which the largest sums are sent. `codec` is topk of the final
// density.
std::unique_ptr<Encoder> make_dgc_encoder(const plan::CodecSpec& spec, const Codec& codec,
                                          std::size_t count, const SenderFacts& facts);
// The share of values that dgc sends in a step: 0.25, 0.0625, 0.015625 and 0.004 for a quarter of
// the warm-up each, but at least the spec's density; that afterwards.
double dgc_density(const plan::CodecSpec& spec, std::uint64_t step);

// onebit-adam: raw gradients, then momentum with feedback.
std::unique_ptr<Encoder> make_momentum_encoder(const plan::CodecSpec& spec, const Codec& codec,
                                               std::size_t count, const SenderFacts& facts);

// What of `values` the receiver of `sent` does not have; 0 where that is not finite.
void keep_what_is_left(const Codec& codec, std::span<const std::byte> sent,
                       std::span<float> values);

}  // namespace tally::codec
