#pragma once
#include <cstddef>
#include <span>

#include "tally/error.h"

// The values that every contender reduces; mpi_worker.c and gloo_worker.py have the same formulas.
namespace tally::bench {

// Known values that differ by rank and by element: whole numbers below 2^24, so that their sum is
// exact in whatever order it is made.
void fill_for_check(std::span<float> data, Rank rank);

// Where `data` is not the sum of what fill_for_check() gave to `ranks` ranks: kCorrupt, with the
// place.
Result<void> compare_with_sum(std::span<const float> data, int ranks);

// Values to time with: small ones, because every all-reduce in place multiplies them by the ranks.
void fill_for_timing(std::span<float> data);

// How often values of fill_for_timing() can be reduced in place before they leave the range of a
// float.
int calls_before_overflow(int ranks);

// Untimed calls after each fill_for_timing(): they bring the ranks into step again.
inline constexpr int kWarmUpCalls = 2;

}  // namespace tally::bench
