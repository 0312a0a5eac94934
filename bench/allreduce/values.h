#pragma once
#include <cstddef>
#include <span>

#include "tally/error.h"

// The values that all contenders reduce; mpi_worker.c and gloo_worker.py have the same formulas.
namespace tally::bench {

// Fills known values that differ by rank and element: whole numbers below 2^24, so that their sum
// is exact in any order.
void fill_for_check(std::span<float> data, Rank rank);

// kCorrupt, with the index, if `data` is not the sum of fill_for_check() of `ranks` ranks.
Result<void> compare_with_sum(std::span<const float> data, int ranks);

// Fills values for timing: small ones, because every all-reduce in place multiplies them by the
// ranks.
void fill_for_timing(std::span<float> data);

// Returns how often values of fill_for_timing() can be reduced in place before they leave the range
// of a float.
int calls_before_overflow(int ranks);

// Untimed calls after each fill_for_timing(), which synchronise the ranks again.
inline constexpr int kWarmUpCalls = 2;

}  // namespace tally::bench
