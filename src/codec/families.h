#pragma once
#include <memory>

#include "codec/codec.h"
#include "kernel/counter_random.h"

// The codecs that make_codec() and make_broadcast_codec() choose from.
namespace tally::codec {

// The random sequence of one encoding; number i is for value i of the run.
kernel::RandomKey key_of(const Draw& draw);

// quantize/: float32 as it is; fp16 or bf16, rounded to nearest even; 8 bits with a scale per
// block; powers of two; stochastic rounding to levels.
std::unique_ptr<Codec> make_plain();
std::unique_ptr<Codec> make_cast(plan::Codec kind);
std::unique_ptr<Codec> make_int8(std::size_t block);
std::unique_ptr<Codec> make_fp8(plan::Fp8Format format, std::size_t block);
std::unique_ptr<Codec> make_natural();
std::unique_ptr<Codec> make_qsgd(int bits, std::size_t block);
std::unique_ptr<Codec> make_ternary(double clip);

// sign/: one bit per value. The first block of onebit is shorter by `missing` values. Majority has
// the result of a vote, -s, 0 or s per block; other values lose their magnitudes.
std::unique_ptr<Codec> make_onebit(std::size_t block, std::size_t missing = 0);
std::unique_ptr<Codec> make_sign(std::size_t block);
std::unique_ptr<Codec> make_majority(std::size_t block);

// sparse/: some values, exactly, or with `scaled` times the inverse of their share. The last two
// send all values that are not zero: make_randk_mean() without indices if they are among those that
// randk draws, make_nonzero() with indices, or densely where that is smaller.
std::unique_ptr<Codec> make_topk(double density, bool exact);
std::unique_ptr<Codec> make_threshold(double threshold);
std::unique_ptr<Codec> make_randk(double density, bool scaled);
std::unique_ptr<Codec> make_randk_mean(double density);
std::unique_ptr<Codec> make_nonzero();

// entropy/: the bytes of `inner` through an entropy coder; `inner` itself without a stage.
std::unique_ptr<Codec> make_staged(std::unique_ptr<Codec> inner, plan::EntropyStage stage);

}  // namespace tally::codec
