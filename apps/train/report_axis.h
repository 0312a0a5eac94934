#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tally::app {

// A scale of a chart: from values to 0..1, with the values that get a line and a label. Pure.
struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<double> ticks;

  // 0 at `low`, 1 at `high`; beyond them outside of it. Below everything for what has no logarithm.
  double place(double value) const;
};

// A scale around the finite ones of `values`, round at both ends, with three to `most_ticks` + 1
// ticks. Values that are all alike, one value or none get a scale as well. Where
// `may_be_logarithmic`, positive values that span more than two powers of ten get a logarithmic
// one.
Axis axis_around(std::span<const double> values, int most_ticks, bool may_be_logarithmic);

// Labels of its ticks, all with the digits that tell neighbours apart.
std::vector<std::string> tick_labels(const Axis& axis);

// Which of `values` to draw when there are more than `most` (four at least): of each stretch the
// first, the least, the greatest and the last, so that the outline and lonely peaks stay; values
// that are not finite count as the greatest. Indices, ascending.
std::vector<std::size_t> thinned(std::span<const double> values, std::size_t most);

}  // namespace tally::app
