#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "plan/codec_spec.h"

namespace tally::bench::codecs {

// The first of a run's values that was decoded farther from what it was than its kind allows: half
// a step for what is rounded, a step for what is rounded by chance, the value itself for what may
// be left out. Nothing if all are near enough. `block`: values that share a scale; 0: none.
std::optional<std::size_t> first_out_of_bounds(const plan::CodecSpec& spec, std::size_t block,
                                               std::span<const float> values,
                                               std::span<const float> decoded);

// ||a - b|| / ||a||; 0 if both are zero.
double relative_error(std::span<const float> a, std::span<const float> b);

}  // namespace tally::bench::codecs
