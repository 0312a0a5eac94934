#pragma once
#include <memory>

#include "codec/encoder/encoder.h"

// Encoders with a file of their own, and a helper that several encoders share.
namespace tally::codec {

// dgc: momentum correction at the sender, of which the largest sums are sent. `codec` is topk at
// the final density.
std::unique_ptr<Encoder> make_dgc_encoder(const plan::CodecSpec& spec, const Codec& codec,
                                          std::size_t count, const SenderFacts& facts);
// The share of values that dgc sends in a step. In the quarters of the warm-up it is 0.25, 0.0625,
// 0.015625 and 0.004, but at least the spec's density; after the warm-up it is that density.
double dgc_density(const plan::CodecSpec& spec, std::uint64_t step);

// onebit-adam: raw gradients during the warm-up, then momentum with error feedback.
std::unique_ptr<Encoder> make_onebit_adam_encoder(const plan::CodecSpec& spec, const Codec& codec,
                                                  std::size_t count, const SenderFacts& facts);

// Subtracts from `values` what the receiver of `sent` decodes, and sets differences that are not
// finite to 0: the receiver has seen those, and one such gradient must not spoil all later ones.
void subtract_sent(const Codec& codec, std::span<const std::byte> sent, std::span<float> values);

}  // namespace tally::codec
