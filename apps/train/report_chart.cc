
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/train/report_parts.h"

namespace tally::app {
namespace {

// Size of the picture, in pixels on a wide page.
constexpr double kChartWidth = 560;
constexpr double kHeight = 300;
constexpr double kLeft = 58;
constexpr double kRight = 546;
constexpr double kTop = 26;
constexpr double kBottom = 258;
constexpr int kMostTicks = 6;
constexpr std::size_t kMostPoints = 1200;  // of a curve
constexpr std::size_t kDotsUpTo = 40;      // number of points; longer curves are drawn without dots

struct Frame {
  Axis x;
  Axis y;
  double x_of(double step) const { return kLeft + x.place(step) * (kRight - kLeft); }
  double y_of(double value) const {
    return kBottom - std::clamp(y.place(value), 0.0, 1.0) * (kBottom - kTop);
  }
};

// From the first step to the last exactly; from 0 if that is near.
Axis step_axis(double first, double last) {
  const double low = first <= last - first || first == last ? 0 : first;
  const double high = std::max(last, low + 1);
  const std::array<double, 2> ends = {low, high};
  Axis axis = axis_around(ends, kMostTicks, false);
  std::erase_if(axis.ticks, [&](double t) { return t < low || t > high || t != std::floor(t); });
  axis.low = low;
  axis.high = high;
  return axis;
}

Frame frame_of(const Chart& chart) {
  std::vector<double> values;
  for (const ChartSeries& series : chart.series)
    for (const ChartPoint& point : series.points) values.push_back(point.value);
  if (chart.kind == ValueKind::kCount) values.push_back(0);  // speeds are compared from zero
  Frame frame{.x = step_axis(chart.first_step, chart.last_step),
              .y = axis_around(values, kMostTicks, chart.may_be_logarithmic)};
  if (chart.kind == ValueKind::kShare) {
    frame.y.low = std::max(0.0, frame.y.low);
    frame.y.high = std::min(1.0, frame.y.high);
    std::erase_if(frame.y.ticks, [&](double t) { return t < frame.y.low || t > frame.y.high; });
  }
  return frame;
}

std::vector<std::string> value_labels(const Chart& chart, const Axis& axis) {
  if (chart.kind == ValueKind::kNumber) return tick_labels(axis);
  if (chart.kind == ValueKind::kShare) {
    Axis percents = axis;
    for (double& tick : percents.ticks) tick *= 100;
    std::vector<std::string> labels = tick_labels(percents);
    for (std::string& label : labels) label += " %";
    return labels;
  }
  std::vector<std::string> labels;
  for (const double tick : axis.ticks) labels.push_back(count_text(tick));
  return labels;
}

std::string grid_svg(const Chart& chart, const Frame& frame) {
  std::string svg;
  const std::vector<std::string> labels = value_labels(chart, frame.y);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const double y = frame.y_of(frame.y.ticks[i]);
    svg += fmt::format(R"(<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)", kLeft,
                       kRight, y, y);
    svg += fmt::format(R"(<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>)",
                       kLeft - 8, y + 4, labels[i]);
  }
  for (const double tick : frame.x.ticks) {
    const double x = frame.x_of(tick);
    svg += fmt::format(R"(<line class="tickmark" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>)", x, x,
                       kBottom, kBottom + 5);
    svg += fmt::format(R"(<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x,
                       kBottom + 19, count_text(tick));
  }
  svg += fmt::format(R"(<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>)", kLeft, kRight,
                     kBottom, kBottom);
  svg += fmt::format(R"(<text class="name" x="{}" y="{}" text-anchor="middle">step</text>)",
                     (kLeft + kRight) / 2, kBottom + 36);
  return svg;
}

// Empty if steps and epochs are not proportional: runs with different batches differ.
std::string epochs_svg(const Chart& chart, const Frame& frame) {
  const std::vector<ChartPoint>* longest = nullptr;
  for (const ChartSeries& series : chart.series) {
    if (series.points.empty()) continue;
    if (longest == nullptr || series.points.back().step > longest->back().step)
      longest = &series.points;
  }
  if (longest == nullptr || !(longest->back().epoch > 0) || !(longest->back().step > 0)) return "";
  const double pace = longest->back().epoch / longest->back().step;
  for (const ChartSeries& series : chart.series)
    for (const ChartPoint& point : series.points)
      if (std::abs(point.epoch - pace * point.step) > 0.02 * longest->back().epoch) return "";
  const std::array<double, 2> ends = {0, longest->back().epoch};
  const Axis epochs = axis_around(ends, kMostTicks, false);
  const std::vector<std::string> labels = tick_labels(epochs);
  std::string svg = fmt::format(
      R"(<text class="epoch" x="{}" y="{}" text-anchor="end">epoch</text>)", kLeft - 16, kTop - 10);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const double step = epochs.ticks[i] / pace;
    if (step < frame.x.low || step > frame.x.high * (1 + 1e-9)) continue;
    const double x = frame.x_of(step);
    svg += fmt::format(R"(<line class="epochline" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>)", x, x,
                       kTop - 4, kBottom);
    svg += fmt::format(R"(<text class="epoch" x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x,
                       kTop - 10, labels[i]);
  }
  return svg;
}

// Returns the curve as an SVG path, interrupted at values that are not finite.
std::string path_of(const std::vector<ChartPoint>& points, const Frame& frame) {
  std::string path;
  bool down = false;
  for (const ChartPoint& point : points) {
    if (!std::isfinite(point.value)) {
      down = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", down ? "L" : "M", frame.x_of(point.step),
                        frame.y_of(point.value));
    down = true;
  }
  return path;
}

std::string series_svg(const ChartSeries& series, const std::vector<ChartPoint>& points,
                       const Frame& frame) {
  std::string svg =
      fmt::format(R"(<path class="curve {}" d="{}"/>)", series.style, path_of(points, frame));
  for (const ChartPoint& point : points) {
    const double x = frame.x_of(point.step);
    if (!std::isfinite(point.value)) {
      svg += fmt::format(R"(<path class="bad" d="M{:.1f} {}l4 8h-8z"/>)", x, kTop);
    } else if (points.size() <= kDotsUpTo) {
      svg += fmt::format(R"(<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="3"/>)", series.style,
                         x, frame.y_of(point.value));
    }
  }
  return svg;
}

// Four digits more than the texts show are enough for the script.
double short_number(double value) {
  return std::strtod(fmt::format("{:.8g}", value).c_str(), nullptr);
}

// Data for the script: step, epoch, seconds and value of each point; a text for a value that is not
// finite.
nlohmann::json series_data(const ChartSeries& series, const std::vector<ChartPoint>& points) {
  nlohmann::json rows = nlohmann::json::array();
  for (const ChartPoint& point : points)
    rows.push_back({point.step, short_number(point.epoch), short_number(point.at_s),
                    std::isfinite(point.value) ? nlohmann::json(short_number(point.value))
                                               : nlohmann::json(number_text(point.value))});
  return {{"name", series.name}, {"style", series.style}, {"points", std::move(rows)}};
}

const char* kind_name(ValueKind kind) {
  if (kind == ValueKind::kShare) return "share";
  return kind == ValueKind::kCount ? "count" : "number";
}

std::vector<ChartPoint> drawn_points(const ChartSeries& series) {
  std::vector<double> values;
  values.reserve(series.points.size());
  for (const ChartPoint& point : series.points) values.push_back(point.value);
  std::vector<ChartPoint> points;
  for (const std::size_t i : thinned(values, kMostPoints)) points.push_back(series.points[i]);
  return points;
}

std::string chart_legend_html(const Chart& chart, const Frame& frame) {
  std::string html = "<div class=\"legend\">";
  for (const ChartSeries& series : chart.series)
    html += fmt::format(R"(<span class="series"><i class="swatch {}"></i>{}</span>)", series.style,
                        escape_html(series.name));
  if (frame.y.logarithmic) html += "<span>logarithmic scale</span>";
  return html + "</div>";
}

// "test loss: 3 values are not finite, the first at step 120".
std::string notes_html(const Chart& chart) {
  std::string html;
  for (const ChartSeries& series : chart.series) {
    const auto bad = [](const ChartPoint& point) { return !std::isfinite(point.value); };
    const auto first = std::find_if(series.points.begin(), series.points.end(), bad);
    if (first == series.points.end()) continue;
    const auto count = std::count_if(series.points.begin(), series.points.end(), bad);
    html += fmt::format("<p class=\"warning\">{}: {} not finite, first at step {} ({})</p>",
                        escape_html(series.name),
                        count == 1 ? "one value is" : fmt::format("{} values are", count),
                        count_text(first->step), number_text(first->value));
  }
  return html;
}

}  // namespace

std::string chart_html(const Chart& chart) {
  const bool empty = std::all_of(chart.series.begin(), chart.series.end(),
                                 [](const ChartSeries& series) { return series.points.empty(); });
  const std::string title = escape_html(chart.title);
  if (empty)
    return fmt::format(
        "<figure class=\"card chart\"><figcaption>{}</figcaption><p class=\"empty\">"
        "Nothing was measured.</p></figure>\n",
        title);
  const Frame frame = frame_of(chart);
  std::string curves;
  nlohmann::json data{{"kind", kind_name(chart.kind)}, {"log", frame.y.logarithmic}};
  for (const ChartSeries& series : chart.series) {
    const std::vector<ChartPoint> points = drawn_points(series);
    curves += series_svg(series, points, frame);
    data["series"].push_back(series_data(series, points));
  }
  const std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return fmt::format(
      "<figure class=\"card chart\" data-chart=\"{1}\"><figcaption>{0}</figcaption>{2}\n"
      "<svg viewBox=\"0 0 {3} {4}\" role=\"img\" aria-label=\"{0}\">{5}{6}{7}</svg>\n"
      "<div class=\"tip\" hidden></div>{8}</figure>\n",
      title, escape_html(text), chart_legend_html(chart, frame), kChartWidth, kHeight,
      epochs_svg(chart, frame), grid_svg(chart, frame), curves, notes_html(chart));
}

}  // namespace tally::app
