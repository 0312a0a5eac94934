#pragma once
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::bench::train {

// Losses that must agree before anybody is timed: how many, and how far they may be apart, relative
// to the larger.
inline constexpr int kCheckedSteps = 20;
inline constexpr double kTolerance = 1e-4;
// By how much training must have changed the loss: curves that stand still would agree whatever the
// update does.
inline constexpr double kLeastChange = 0.01;

struct Curve {
  std::string name;
  std::vector<double> losses;
};

// The largest relative difference between `mine` and the others. kMismatch says who differs, at
// which step and by how much; or that a loss is not finite, that there are not as many, or that
// nothing was learned. Pure.
Result<double> agreement(const Curve& mine, const std::vector<Curve>& others);

}  // namespace tally::bench::train
