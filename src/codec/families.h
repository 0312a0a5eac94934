#pragma once
#include <cstdint>
#include <memory>

#include "codec/codec.h"

// What make_codec() chooses from; each has a file of its own name.
namespace tally::codec {

// float32 as it is.
std::unique_ptr<Codec> make_plain();
// fp16 or bf16, to nearest even.
std::unique_ptr<Codec> make_cast(plan::Codec kind);
std::unique_ptr<Codec> make_int8(std::size_t block);
std::unique_ptr<Codec> make_fp8(plan::Fp8Format format, std::size_t block);
std::unique_ptr<Codec> make_natural();
std::unique_ptr<Codec> make_qsgd(int bits, std::size_t block);
std::unique_ptr<Codec> make_ternary(double clip);
// The first block is shorter by `missing` values.
std::unique_ptr<Codec> make_onebit(std::size_t block, std::size_t missing = 0);
std::unique_ptr<Codec> make_sign(std::size_t block);
// What a majority decided: -s, 0 or s, for each block of sign. Any other values lose their
// magnitudes.
std::unique_ptr<Codec> make_votes(std::size_t block);
std::unique_ptr<Codec> make_topk(double density, bool exact);
std::unique_ptr<Codec> make_threshold(double threshold);
std::unique_ptr<Codec> make_randk(double density);
// All values that are not zero; without their places where these are among those that randk draws.
std::unique_ptr<Codec> make_randk_mean(double density);
// All values that are not zero, with their places; as it is where these are too many.
std::unique_ptr<Codec> make_nonzero();
// The bytes of `inner` squeezed once more.
std::unique_ptr<Codec> make_staged(std::unique_ptr<Codec> inner, plan::EntropyStage stage);

}  // namespace tally::codec
