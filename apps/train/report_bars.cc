#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "apps/train/report_parts.h"

namespace tally::app {
namespace {

constexpr double kLabelFrom = 0.15;  // share of the longest bar from which a segment is labelled

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
std::string bar_html(const WorkerTimes& times, double longest) {
  const double total = total_seconds(times);
  std::string html = fmt::format("<div class=\"bar\"><span>worker {}</span><div>", times.rank);
  for (const TimeKind& part : kTimeKinds) {
    const double time = positive_seconds(times.*part.time);
    if (!(time > 0) || !(longest > 0)) continue;
    html += fmt::format(R"(<i class="{}" style="width:{:.2f}%" title="worker {}{}: {} {}, {}">)",
                        part.name, time / longest * 100, times.rank,
                        times.host.empty() ? "" : " on " + escape_html(times.host), part.name,
                        time_text(times.*part.time), percent_text(time / total));
    if (time / longest >= kLabelFrom) html += fmt::format("<b>{:.0f} %</b>", time / total * 100);
    html += "</i>";
  }
  return html +
         fmt::format(
             "</div><span>{}</span></div>\n",
             time_text(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(total))));
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
  double longest = 0;
  for (std::size_t i = 0; i < shown; ++i) longest = std::max(longest, total_seconds(times[i]));
  std::string bars;
  for (std::size_t i = 0; i < shown; ++i) bars += bar_html(times[i], longest);
  const std::string note =
      shown == times.size()
          ? ""
          : fmt::format("<p class=\"aside\">The first {} of {} workers.</p>", shown, times.size());
  return fmt::format("<figure class=\"card wide{}\"><figcaption>{}</figcaption>{}\n{}{}</figure>\n",
                     shown > 8 ? " many" : "", kTitle, bars_legend_html(times), bars, note);
}

}  // namespace tally::app
