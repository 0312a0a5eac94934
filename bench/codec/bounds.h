#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "plan/codec_spec.h"

namespace tally::bench::codecs {

// Returns the first value of a run whose decoded value differs more than its codec allows: half a
// step for rounding, a step for stochastic rounding, the value itself for sparsification. Nothing
// if all are within bounds. `block`: values that share a scale; 0: none.
std::optional<std::size_t> first_out_of_bounds(const plan::CodecSpec& spec, std::size_t block,
                                               std::span<const float> values,
                                               std::span<const float> decoded);

// ||a - b|| / ||a||; 0 if both are zero.
double relative_error(std::span<const float> a, std::span<const float> b);

}  // namespace tally::bench::codecs
