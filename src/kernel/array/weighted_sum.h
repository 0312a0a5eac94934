#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "kernel/reduce/reduce.h"

// Element-wise loops over gradients. Every level gives the same bits as the reference; pointers are
// aligned as their elements are. The level is as in table_of().
namespace tally::kernel {

// out[i] = sum over r in order of weights[r] * inputs[r][i], each product and each sum rounded. An
// input with weight 0 is not read, so its memory may be uninitialised. Without other inputs `out`
// becomes 0. `type` is the type of the inputs: kFloat32, or kFloat16 or kBFloat16, which are
// converted first. `out` may be one of the inputs if these are float; otherwise nothing overlaps.
void weighted_sum(DataType type, std::span<const void* const> inputs,
                  std::span<const float> weights, float* out, std::size_t count,
                  std::optional<Level> level = {});
// The same for kFloat64, the only `type` of this overload.
void weighted_sum(DataType type, std::span<const void* const> inputs,
                  std::span<const double> weights, double* out, std::size_t count,
                  std::optional<Level> level = {});
// Plain loops for tests to compare with.
void weighted_sum_reference(DataType type, std::span<const void* const> inputs,
                            std::span<const float> weights, float* out, std::size_t count);
void weighted_sum_reference(DataType type, std::span<const void* const> inputs,
                            std::span<const double> weights, double* out, std::size_t count);

// Clamps data[i] to [-limit, limit]; a NaN stays. limit >= 0. T is float or double, here and below.
template <typename T>
void clamp(T* data, std::size_t count, T limit, std::optional<Level> level = {});

// data[i] *= factor.
template <typename T>
void scale(T* data, std::size_t count, T factor, std::optional<Level> level = {});

}  // namespace tally::kernel
