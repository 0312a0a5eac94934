#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/train/report.h"
#include "tally/deadline.h"

namespace tally::app {

// The parts of the report of a training: texts, axes and charts. Pure.

// Escapes the special characters of HTML, for text and attributes. Control characters and invalid
// UTF-8 become U+FFFD, so that the page is well-formed for any path or host name.
std::string escape_html(std::string_view text);

// Four significant digits, but all digits of a whole part below a billion: "0.3245", "12.35",
// "45230", "1.2e-07", "NaN", "infinity".
std::string number_text(double value);

// Grouped by thousands with narrow spaces: "1 234 567"; "12.3 M" from ten million on.
std::string count_text(double count);

// "850 ms", "12.3 s", "4 min 5 s", "2 h 7 min".
std::string time_text(Duration time);

// 0.8934 is "89.34 %".
std::string percent_text(double share);

// A scale of a chart: maps values to 0..1, with the values of ticks.
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

// Format of the values of a chart.
enum class ValueKind : std::uint8_t { kNumber, kShare, kCount };

struct ChartPoint {
  double step = 0;
  double epoch = 0;
  double at_s = 0;
  double value = 0;
};

struct ChartSeries {
  std::string name;
  std::string style;               // CSS classes of the colour: "train", "test", "run3 dashed"
  std::vector<ChartPoint> points;  // by step, ascending
};

struct Chart {
  std::string title;
  ValueKind kind = ValueKind::kNumber;
  bool may_be_logarithmic = false;
  // Minimum range of the step axis, so that the charts of one page are alike.
  double first_step = 0;
  double last_step = 0;
  std::vector<ChartSeries> series;
};

// Returns a <figure> with the curves as SVG: steps below, epochs above, gridlines, legend. It also
// has the data for the script, which draws the chart again. Values that are not finite interrupt
// the curve and are marked at its upper edge.
std::string chart_html(const Chart& chart);

// Returns the points of a record that have this value.
ChartSeries series_of(const TrainingRecord& record, std::string name, std::string style,
                      std::optional<double> RecordPoint::*value);

// Returns the charts without empty series, and without the charts that then have none, except the
// first. All get the range of steps of all points.
std::vector<Chart> completed(std::vector<Chart> charts);

// Returns a page around `body`, with style and script. `title` is text.
std::string page_html(const std::string& title, const std::string& body);

// Returns a card with a table of two columns; empty if there are no rows. `size` is a CSS class.
std::string rows_html(const char* title, const char* size, const std::vector<RecordRow>& rows);

// Returns a <figure> with one stacked bar per worker, for the first kMostBars workers.
inline constexpr std::size_t kMostBars = 64;
std::string time_bars_html(const std::vector<WorkerTimes>& times);

}  // namespace tally::app
