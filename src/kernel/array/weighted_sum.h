#pragma once
#include <cstddef>
#include <span>

#include "kernel/reduce/reduce.h"

// Element-wise loops over gradients. Every level gives the same bits as the reference; pointers are
// aligned as their elements are.
namespace tally::kernel {

// out[i] = sum over r in order of weights[r] * inputs[r][i], each product and each sum rounded. An
// input with weight 0 is not read, so its memory may be uninitialised. Without other inputs `out`
// becomes 0. `type` is the type of the inputs: kFloat32, or kFloat16 or kBFloat16, which are
// converted first. `out` may be one of the inputs if these are float; otherwise nothing overlaps.
void weighted_sum(DataType type, std::span<const void* const> inputs,
                  std::span<const float> weights, float* out, std::size_t count);
// The same for kFloat64, the only `type` of this overload.
void weighted_sum(DataType type, std::span<const void* const> inputs,
                  std::span<const double> weights, double* out, std::size_t count);

// `type` is kFloat32, kFloat16 or kBFloat16; halves are rounded to nearest even. No overlap.
void convert_from_float(DataType to, const float* in, void* out, std::size_t count);
void convert_to_float(DataType from, const void* in, float* out, std::size_t count);

// Clamps data[i] to [-limit, limit]; a NaN stays. limit >= 0. T is float or double, here and below.
template <typename T>
void clamp(T* data, std::size_t count, T limit);

// data[i] *= factor.
template <typename T>
void scale(T* data, std::size_t count, T factor);

// For tests and measurements: a level from available_levels(), and plain loops to compare with.
void weighted_sum(Level level, DataType type, std::span<const void* const> inputs,
                  std::span<const float> weights, float* out, std::size_t count);
void weighted_sum(Level level, DataType type, std::span<const void* const> inputs,
                  std::span<const double> weights, double* out, std::size_t count);
template <typename T>
void clamp(Level level, T* data, std::size_t count, T limit);
template <typename T>
void scale(Level level, T* data, std::size_t count, T factor);
void weighted_sum_reference(DataType type, std::span<const void* const> inputs,
                            std::span<const float> weights, float* out, std::size_t count);
void weighted_sum_reference(DataType type, std::span<const void* const> inputs,
                            std::span<const double> weights, double* out, std::size_t count);

}  // namespace tally::kernel
