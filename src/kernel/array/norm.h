#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "kernel/level.h"

namespace tally::kernel {

// The sum of squares in double: element i goes to lane i % 32, and the lanes are added pairwise by
// halves, so every level and alignment gives the same bits. The sum over parts of an array has
// other last bits than the sum over the whole: ranks that share an array must cut it at the same
// elements. T is float or double.
inline constexpr std::size_t kNormLanes = 32;

template <typename T>
double square_sum(std::span<const T> values, std::optional<Level> level = {});
template <typename T>
double square_sum_reference(std::span<const T> values);

}  // namespace tally::kernel
