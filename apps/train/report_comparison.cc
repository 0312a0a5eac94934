#include "apps/train/report_comparison.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "apps/train/report_parts.h"

namespace tally::app {
namespace {

constexpr const char* kReadAs = "read as";  // the setting that describes data of the user's own
constexpr std::size_t kRunColours = 8;      // .run0 to .run7 of report_page.css

// The colours repeat with dashed curves.
std::string run_style(std::size_t run) {
  return fmt::format("run{}{}", run % kRunColours, run / kRunColours % 2 == 1 ? " dashed" : "");
}

// A setting, with its value in each run; nothing where a run does not have it.
struct Setting {
  std::string key;
  std::vector<std::optional<std::string>> values;

  bool differs() const {
    return std::any_of(values.begin(), values.end(),
                       [&](const auto& value) { return value != values.front(); });
  }
};

// In the order of the first run that has a setting.
std::vector<Setting> settings_of(const std::vector<NamedRecord>& runs) {
  std::vector<Setting> settings;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (const RecordRow& row : runs[run].record.configuration) {
      auto found = std::find_if(settings.begin(), settings.end(),
                                [&](const Setting& setting) { return setting.key == row.key; });
      if (found == settings.end())
        found = settings.insert(settings.end(), {.key = row.key, .values = {}});
      found->values.resize(runs.size());
      found->values[run] = row.value;
    }
  }
  return settings;
}

// Returns the value with marks around the words that the first run does not have.
std::string marked_html(const Setting& setting, std::size_t run) {
  if (!setting.values[run]) return run == 0 || !setting.values[0] ? "-" : "<mark>-</mark>";
  const auto words_of = [](const std::string& text) {
    std::istringstream in(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  const auto first = words_of(setting.values[0].value_or(""));
  std::string html;
  for (const std::string& word : words_of(*setting.values[run])) {
    const bool known = run == 0 || std::find(first.begin(), first.end(), word) != first.end();
    html += fmt::format("{}{}", html.empty() ? "" : " ",
                        known ? escape_html(word) : "<mark>" + escape_html(word) + "</mark>");
  }
  return html;
}

// A column of final figures. `better` is 1 if more is better, -1 if less is, and 0 otherwise.
struct Figure {
  const char* title;
  int better;
  std::function<std::optional<double>(const TrainingRecord&)> value;
  std::function<std::string(const TrainingRecord&, double)> text;
};

std::vector<Figure> figures() {
  const auto share = [](const TrainingRecord&, double value) { return percent_text(value); };
  const auto number = [](const TrainingRecord&, double value) { return number_text(value); };
  const auto count = [](const TrainingRecord&, double value) { return count_text(value); };
  const auto field = [](auto TrainingRecord::*member) {
    return [member](const TrainingRecord& record) -> std::optional<double> {
      if constexpr (std::is_integral_v<std::remove_reference_t<decltype(record.*member)>>)
        return static_cast<double>(record.*member);
      else
        return record.*member;
    };
  };
  return {{"accuracy", 1, field(&TrainingRecord::accuracy), share},
          {"AUC", 1, field(&TrainingRecord::auc), number},
          {"RMSE", -1, field(&TrainingRecord::rmse), number},
          {"test loss", -1, field(&TrainingRecord::test_loss), number},
          {"training loss", -1, field(&TrainingRecord::train_loss), number},
          {"time", -1,
           [](const TrainingRecord& record) -> std::optional<double> {
             return std::chrono::duration<double>(record.elapsed).count();
           },
           [](const TrainingRecord& record, double) { return time_text(record.elapsed); }},
          {"speed", 1, field(&TrainingRecord::samples_per_s),
           [](const TrainingRecord& record, double value) {
             return fmt::format("{} {}/s", count_text(value), record.unit);
           }},
          {"steps", 0, field(&TrainingRecord::steps), count},
          {"epochs", 0, field(&TrainingRecord::epochs), number}};
}

// Whether all runs learned from the same samples, so that their figures can be compared.
bool same_data(const std::vector<NamedRecord>& runs, const std::vector<Setting>& different) {
  const bool named = std::all_of(runs.begin(), runs.end(), [&](const NamedRecord& run) {
    return run.record.data == runs.front().record.data;
  });
  return named && std::none_of(different.begin(), different.end(), [](const Setting& setting) {
           return setting.key == kReadAs || setting.key == "training samples" ||
                  setting.key == "test samples";
         });
}

// The best value of a column; nothing if all are equal or none is better than others.
std::optional<double> best_of(const Figure& figure, const std::vector<NamedRecord>& runs) {
  std::vector<double> values;
  for (const NamedRecord& run : runs)
    if (const auto value = figure.value(run.record); value && std::isfinite(*value))
      values.push_back(*value);
  if (figure.better == 0 || values.empty()) return std::nullopt;
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  if (*least == *greatest) return std::nullopt;
  return figure.better > 0 ? *greatest : *least;
}

std::string table_html(const std::vector<NamedRecord>& runs, const std::vector<Setting>& settings) {
  const bool comparable = same_data(runs, settings);
  std::vector<Figure> columns = figures();
  std::erase_if(columns, [&](const Figure& figure) {
    return std::none_of(runs.begin(), runs.end(), [&](const NamedRecord& run) {
      return figure.value(run.record).has_value();
    });
  });
  std::string html =
      "<section class=\"card\"><h2>Runs</h2><div class=\"scroll\"><table class=\"runs\">\n"
      "<thead><tr><th scope=\"col\">run</th>";
  for (const Figure& figure : columns)
    html += fmt::format("<th scope=\"col\">{}</th>", figure.title);
  html += "<th scope=\"col\">outcome</th>";
  for (const Setting& setting : settings)
    html += fmt::format("<th scope=\"col\" class=\"differs\">{}</th>", escape_html(setting.key));
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const TrainingRecord& record = runs[i].record;
    html += fmt::format("<tr><th scope=\"row\"><i class=\"swatch {}\"></i>{}</th>", run_style(i),
                        escape_html(runs[i].name));
    for (const Figure& figure : columns) {
      const auto value = figure.value(record);
      const bool best = comparable && value && value == best_of(figure, runs);
      html += fmt::format("<td{}>{}</td>", best ? " class=\"best\"" : "",
                          value ? escape_html(figure.text(record, *value)) : "-");
    }
    html += fmt::format("<td class=\"text\">{}</td>", escape_html(record.outcome));
    for (const Setting& setting : settings)
      html += fmt::format("<td class=\"text\">{}</td>", marked_html(setting, i));
    html += "</tr>\n";
  }
  return html + fmt::format(
                    "</tbody></table></div><p class=\"aside\">{} Marked: settings that differ from "
                    "those of the first run.</p></section>\n",
                    comparable ? "Bold: the best value."
                               : "The data differ, so no value is the best one.");
}

std::vector<Chart> comparison_charts(const std::vector<NamedRecord>& runs) {
  const auto of = [&](Chart chart, std::optional<double> RecordPoint::*value) {
    for (std::size_t i = 0; i < runs.size(); ++i)
      chart.series.push_back(series_of(runs[i].record, runs[i].name, run_style(i), value));
    return chart;
  };
  return completed(
      {of({.title = "Training loss", .may_be_logarithmic = true}, &RecordPoint::train_loss),
       of({.title = "Test loss", .may_be_logarithmic = true}, &RecordPoint::test_loss),
       of({.title = "Accuracy", .kind = ValueKind::kShare}, &RecordPoint::accuracy),
       of({.title = "AUC"}, &RecordPoint::auc),
       of({.title = "Speed, " + runs.front().record.unit + " per second",
           .kind = ValueKind::kCount},
          &RecordPoint::samples_per_s),
       of({.title = "Learning rate"}, &RecordPoint::rate)});
}

// "lenet on fashion-mnist: 3 runs"; "3 runs" if they trained different things.
std::string comparison_title(const std::vector<NamedRecord>& runs) {
  const TrainingRecord& first = runs.front().record;
  const bool alike = std::all_of(runs.begin(), runs.end(), [&](const NamedRecord& run) {
    return run.record.recipe == first.recipe && run.record.data == first.data;
  });
  const std::string count = fmt::format("{} runs", runs.size());
  if (!alike) return count;
  return fmt::format("{}{}{}: {}", first.recipe, first.data.empty() ? "" : " on ", first.data,
                     count);
}

}  // namespace

std::string comparison_html(const std::vector<NamedRecord>& runs) {
  const std::string title = comparison_title(runs);
  std::vector<Setting> different = settings_of(runs);
  std::vector<RecordRow> equal;
  for (const Setting& setting : different)
    if (!setting.differs()) equal.push_back({setting.key, setting.values.front().value_or("")});
  std::erase_if(different, [](const Setting& setting) { return !setting.differs(); });
  // The longest text comes last.
  std::stable_partition(different.begin(), different.end(),
                        [](const Setting& setting) { return setting.key != kReadAs; });
  std::vector<RecordRow> commands;
  for (const NamedRecord& run : runs)
    if (!run.record.command.empty()) commands.push_back({run.name, run.record.command});
  std::string html = fmt::format("<header><h1>{}</h1></header>\n", escape_html(title));
  html += table_html(runs, different);
  html += "<div class=\"cards\">\n";
  for (const Chart& chart : comparison_charts(runs)) html += chart_html(chart);
  html += rows_html("The same in all runs", "wide", equal);
  html += rows_html("Command lines", "wide", commands);
  return page_html(title, html + "</div>\n<footer>Written by tally report.</footer>\n");
}

}  // namespace tally::app
