#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "bench/codec/measure.h"

namespace tally::bench::codecs {

// Returns the speed of `work` in GB/s of `bytes`, by the processor time of this thread, so that
// other processes of a busy machine do not count.
double gb_per_s(std::size_t bytes, const std::function<void()>& work);

// One kind of work on all values of an input, and where its speed belongs.
struct Work {
  Measurement::Speed Measurement::*speed;
  std::function<void()> run;
};
// Times each work `repeats` times. Each repetition is timed beside a memory copy of its own, in the
// same pieces as codecs get, into `out`, which is as large as the input.
void time_all(const Input& input, std::span<float> out, int repeats, const std::vector<Work>& works,
              Measurement& result);

// Returns the first value of a run whose decoded value differs more than its codec allows: half a
// step for rounding, a step for stochastic rounding, the value itself for sparsification. Nothing
// if all are within bounds. `block`: values that share a scale; 0: none.
std::optional<std::size_t> first_out_of_bounds(const plan::CodecSpec& spec, std::size_t block,
                                               std::span<const float> values,
                                               std::span<const float> decoded);

// ||a - b|| / ||a||; 0 if both are zero.
double relative_error(std::span<const float> a, std::span<const float> b);

// Steps of a sender with the same values, to measure error feedback.
inline constexpr int kFeedbackSteps = 20;

// The low-rank codec works on whole matrices: encode is the first two products, decode the third.
Result<Measurement> measure_powersgd(const plan::CodecSpec& spec, const Input& input, int repeats);

}  // namespace tally::bench::codecs
