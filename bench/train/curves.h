#pragma once
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::bench::train {

// Losses that must agree before contenders are timed: their number, and the largest difference
// relative to the larger.
inline constexpr int kCheckedSteps = 20;
inline constexpr double kTolerance = 1e-4;
// Least relative change of the loss by training: constant curves would agree for any update.
inline constexpr double kLeastChange = 0.01;

struct Curve {
  std::string name;
  std::vector<double> losses;
};

// Returns the largest relative difference between `mine` and the others. kMismatch names the curve,
// step and difference, or says that a loss is not finite, that numbers of losses differ, or that
// nothing was learned. Pure.
Result<double> agreement(const Curve& mine, const std::vector<Curve>& others);

}  // namespace tally::bench::train
