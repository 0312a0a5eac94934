#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "apps/train/report_page.h"
#include "apps/train/report_parts.h"

namespace tally::app {

ChartSeries series_of(const TrainingRecord& record, std::string name, std::string style,
                      std::optional<double> RecordPoint::*value) {
  ChartSeries series{.name = std::move(name), .style = std::move(style)};
  for (const RecordPoint& point : record.points) {
    if (!(point.*value)) continue;
    series.points.push_back({.step = static_cast<double>(point.step),
                             .epoch = point.epoch,
                             .at_s = point.at_s,
                             .value = *(point.*value)});
  }
  return series;
}

std::vector<Chart> completed(std::vector<Chart> charts) {
  std::optional<std::pair<double, double>> steps;
  for (Chart& chart : charts) {
    std::erase_if(chart.series, [](const ChartSeries& series) { return series.points.empty(); });
    for (const ChartSeries& series : chart.series) {
      const double first = series.points.front().step;
      const double last = series.points.back().step;
      steps = steps ? std::pair(std::min(steps->first, first), std::max(steps->second, last))
                    : std::pair(first, last);
    }
  }
  const auto bare = [](const Chart& chart) { return chart.series.empty(); };
  charts.erase(std::remove_if(charts.begin() + 1, charts.end(), bare), charts.end());
  for (Chart& chart : charts) {
    chart.first_step = steps ? steps->first : 0;
    chart.last_step = steps ? steps->second : 0;
  }
  return charts;
}

std::string rows_html(const char* title, const char* size, const std::vector<RecordRow>& rows) {
  if (rows.empty()) return "";
  std::string html = fmt::format("<section class=\"card {}\"><h2>{}</h2><table>\n", size, title);
  for (const RecordRow& row : rows)
    html += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape_html(row.key),
                        escape_html(row.value));
  return html + "</table></section>\n";
}

std::string page_html(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{} - Tally</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n"
      "{}</main>\n<script>{}</script>\n</body>\n</html>\n",
      escape_html(title), kReportStyle, body, kReportScript);
}

}  // namespace tally::app
