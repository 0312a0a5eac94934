#pragma once
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::bench::train {

// Losses that must agree before contenders are timed: their number, and the largest difference
// relative to the larger, for float32 on CPUs.
inline constexpr int kCheckedSteps = 20;
inline constexpr double kTolerance = 1e-4;
// The same for a device (cpu, cuda) and a precision (float32, bfloat16). GPUs add in an order that
// changes from run to run, and round to TF32 in convolutions.
double tolerance_of(const std::string& device, const std::string& precision);
// Least relative change of the loss by training: constant curves would agree for any update.
inline constexpr double kLeastChange = 0.01;

struct Curve {
  std::string name;
  std::vector<double> losses;
};

// Returns the largest relative difference between `mine` and the others. kMismatch names the curve,
// step and difference, or says that a loss is not finite, that numbers of losses differ, or that
// nothing was learned. Pure.
Result<double> agreement(const Curve& mine, const std::vector<Curve>& others,
                         double tolerance = kTolerance);

// For each of several curves that should be equal: its largest relative difference from the curve
// with which most of them agree (the first of those, in their order), or why it does not agree with
// it. If no two agree, nobody knows which is right, and all are refused. Pure.
std::vector<Result<double>> judge(const std::vector<Curve>& curves, double tolerance);

}  // namespace tally::bench::train
