#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "apps/train/report.h"

namespace tally::app {

// Format of the values of a chart.
enum class ValueKind : std::uint8_t { kNumber, kShare, kCount };

struct ChartPoint {
  double step = 0;
  double epoch = 0;
  double value = 0;
};

struct ChartSeries {
  std::string name;
  std::string style;               // CSS class of the colour: "train", "test", "accuracy", "speed"
  std::vector<ChartPoint> points;  // by step, ascending
};

struct Chart {
  std::string title;
  ValueKind kind = ValueKind::kNumber;
  bool may_be_logarithmic = false;
  double first_step =
      0;  // minimum range of the step axis, so that the charts of one page are alike
  double last_step = 0;
  std::vector<ChartSeries> series;
};

// Returns a <figure> with the curves as SVG: steps below, epochs above, gridlines, legend, and the
// data for the script that shows values under the pointer. Values that are not finite interrupt the
// curve and are marked at its upper edge.
std::string chart_html(const Chart& chart);

// Returns a <figure> with one stacked bar per worker, for the first kMostBars workers.
inline constexpr std::size_t kMostBars = 64;
std::string time_bars_html(const std::vector<WorkerTimes>& times);

}  // namespace tally::app
