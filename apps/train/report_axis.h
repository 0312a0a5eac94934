#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tally::app {

// A scale of a chart: maps values to 0..1, with the values of ticks. Pure.
struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<double> ticks;

  // Returns 0 at `low` and 1 at `high`; values beyond are outside 0..1. Values without a logarithm
  // are below everything.
  double place(double value) const;
};

// Returns a scale around the finite `values` with round ends and three to `most_ticks` + 1 ticks.
// Equal values, one value or none also get a scale. With `may_be_logarithmic`, positive values that
// span more than two powers of ten get a logarithmic scale.
Axis axis_around(std::span<const double> values, int most_ticks, bool may_be_logarithmic);

// Returns the labels of the ticks, with the digits that distinguish neighbours.
std::vector<std::string> tick_labels(const Axis& axis);

// Returns ascending indices of the values to draw if there are more than `most` (at least four): of
// each section the first, the least, the greatest and the last, so that outline and peaks stay;
// values that are not finite count as the greatest.
std::vector<std::size_t> thinned(std::span<const double> values, std::size_t most);

}  // namespace tally::app
