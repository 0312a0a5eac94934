#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "apps/train/report_parts.h"

namespace tally::app {
namespace {

constexpr double kBarsWidth = 1130;
constexpr double kBarsLeft = 110;
constexpr double kBarsRight = 1040;
constexpr double kLabelFrom = 58;  // width from which a segment shows its share

struct TimeKind {
  const char* name;  // also the CSS class
  Duration WorkerTimes::*time;
};
constexpr std::array<TimeKind, 4> kTimeKinds = {{{"compute", &WorkerTimes::compute},
                                                 {"communicate", &WorkerTimes::communicate},
                                                 {"wait", &WorkerTimes::wait},
                                                 {"data", &WorkerTimes::data}}};

double positive_seconds(Duration time) {
  return std::max(0.0, std::chrono::duration<double>(time).count());
}

double total_seconds(const WorkerTimes& times) {
  double total = 0;
  for (const TimeKind& part : kTimeKinds) total += positive_seconds(times.*part.time);
  return total;
}

// One worker: name, segments, sum.
std::string bar_svg(const WorkerTimes& times, double y, double height, double longest) {
  const double total = total_seconds(times);
  const double middle = y + height / 2 + 4;
  std::string svg =
      fmt::format(R"(<text class="tick" x="{}" y="{:.1f}" text-anchor="end">worker {}</text>)",
                  kBarsLeft - 10, middle, times.rank);
  double x = kBarsLeft;
  for (const TimeKind& part : kTimeKinds) {
    const double share = total > 0 ? positive_seconds(times.*part.time) / total : 0;
    const double width =
        longest > 0 ? positive_seconds(times.*part.time) / longest * (kBarsRight - kBarsLeft) : 0;
    if (width <= 0) continue;
    svg += fmt::format(R"(<rect class="{}" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}">)"
                       "<title>worker {}{}: {} {}, {}</title></rect>",
                       part.name, x, y, width, height, times.rank,
                       times.host.empty() ? "" : " on " + escape_html(times.host), part.name,
                       time_text(times.*part.time), percent_text(share));
    if (width >= kLabelFrom && height >= 14)
      svg += fmt::format(
          R"(<text class="inside" x="{:.1f}" y="{:.1f}" text-anchor="middle">{:.1f} %</text>)",
          x + width / 2, middle, share * 100);
    x += width;
  }
  svg += fmt::format(
      R"(<text class="tick" x="{:.1f}" y="{:.1f}">{}</text>)", x + 8, middle,
      time_text(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(total))));
  return svg;
}

// The legend with the shares of all workers together: "compute 81.3 %".
std::string bars_legend_html(const std::vector<WorkerTimes>& times) {
  double all = 0;
  for (const WorkerTimes& worker : times) all += total_seconds(worker);
  std::string html = "<div class=\"legend\">";
  for (const TimeKind& part : kTimeKinds) {
    double sum = 0;
    for (const WorkerTimes& worker : times) sum += positive_seconds(worker.*part.time);
    html += fmt::format(R"(<span><i class="swatch {}"></i>{} <b>{}</b></span>)", part.name,
                        part.name, percent_text(all > 0 ? sum / all : 0));
  }
  return html + "</div>";
}

}  // namespace

std::string time_bars_html(const std::vector<WorkerTimes>& times) {
  constexpr const char* kTitle = "Where the time went";
  if (times.empty())
    return fmt::format(
        "<figure class=\"card wide\"><figcaption>{}</figcaption><p class=\"empty\">"
        "Nothing was measured.</p></figure>\n",
        kTitle);
  const std::size_t shown = std::min(times.size(), kMostBars);
  const double height = shown <= 8 ? 26 : shown <= 16 ? 18 : 12;
  const double pitch = height + (shown <= 8 ? 10 : 4);
  double longest = 0;
  for (std::size_t i = 0; i < shown; ++i) longest = std::max(longest, total_seconds(times[i]));
  std::string bars;
  for (std::size_t i = 0; i < shown; ++i)
    bars += bar_svg(times[i], 4 + static_cast<double>(i) * pitch, height, longest);
  const std::string note =
      shown == times.size()
          ? ""
          : fmt::format("<p class=\"aside\">The first {} of {} workers.</p>", shown, times.size());
  return fmt::format(
      "<figure class=\"card wide\"><figcaption>{0}</figcaption>{1}\n<svg viewBox=\"0 0 {2} "
      "{3:.0f}\" role=\"img\" "
      "aria-label=\"{0}\">{4}</svg>{5}</figure>\n",
      kTitle, bars_legend_html(times), kBarsWidth, static_cast<double>(shown) * pitch + 4, bars,
      note);
}

}  // namespace tally::app
