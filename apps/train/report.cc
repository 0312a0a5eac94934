#include "apps/train/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/train/report_parts.h"
#include "base/counted.h"

namespace tally::app {
namespace {

// Returns the chart of the loss, and others that have values.
std::vector<Chart> charts_of(const TrainingRecord& record) {
  return completed(
      {{.title = "Loss",
        .may_be_logarithmic = true,
        .series = {series_of(record, "train", "train", &RecordPoint::train_loss),
                   series_of(record, "test", "test", &RecordPoint::test_loss)}},
       {.title = "Accuracy",
        .kind = ValueKind::kShare,
        .series = {series_of(record, "test", "accuracy", &RecordPoint::accuracy)}},
       {.title = "AUC", .series = {series_of(record, "test", "accuracy", &RecordPoint::auc)}},
       {.title = "Speed, " + record.unit + " per second",
        .kind = ValueKind::kCount,
        .series = {series_of(record, "all workers", "speed", &RecordPoint::samples_per_s)}},
       {.title = "Learning rate",
        .series = {series_of(record, "learning rate", "rate", &RecordPoint::rate)}}});
}

std::string tile_html(const std::string& label, const std::string& value,
                      const std::string& detail) {
  return fmt::format("<div class=\"tile\"><span>{}</span><b>{}</b><small>{}</small></div>\n",
                     escape_html(label), escape_html(value), escape_html(detail));
}

std::string tiles_html(const TrainingRecord& record) {
  std::string html = "<section class=\"tiles\">\n";
  if (record.accuracy)
    html += tile_html("test accuracy", percent_text(*record.accuracy),
                      record.best_accuracy ? "best " + percent_text(*record.best_accuracy) : "");
  if (record.auc)
    html += tile_html("test AUC", fmt::format("{:.4f}", *record.auc), "area under the ROC curve");
  if (record.rmse)
    html += tile_html("test RMSE", number_text(*record.rmse), "in the unit of the target");
  if (record.test_loss || record.train_loss) {
    std::string detail;
    if (record.test_loss && record.train_loss)
      detail = "training " + number_text(*record.train_loss);
    if (record.test_loss && record.best_test_loss && *record.best_test_loss < *record.test_loss)
      detail += fmt::format("{}lowest {}", detail.empty() ? "" : ", ",
                            number_text(*record.best_test_loss));
    html +=
        tile_html(record.test_loss ? "test loss" : "training loss",
                  number_text(record.test_loss ? *record.test_loss : *record.train_loss), detail);
  }
  html += tile_html(
      "time", time_text(record.elapsed),
      record.steps > 0
          ? time_text(record.elapsed / static_cast<std::int64_t>(record.steps)) + " per step"
          : "");
  if (record.samples_per_s)
    html += tile_html("speed", count_text(*record.samples_per_s), record.unit + " per second");
  html += tile_html("steps", count_text(static_cast<double>(record.steps)),
                    fmt::format("{} epochs, {} {}", number_text(record.epochs),
                                count_text(static_cast<double>(record.samples)), record.unit));
  const std::string parameters = count_text(static_cast<double>(record.parameters)) + " parameters";
  html += tile_html("workers", fmt::format("{}", record.workers),
                    record.lost_workers.empty()
                        ? parameters
                        : fmt::format("{} lost; {}", record.lost_workers.size(), parameters));
  return html + "</section>\n";
}

std::string events_html(const TrainingRecord& record) {
  std::vector<RecordRow> rows;
  for (const RecordEvent& event : record.events)
    rows.push_back({"step " + count_text(static_cast<double>(event.step)), event.text});
  return rows_html("Events", "wide", rows);
}

// Empty if no worker was lost.
std::string lost_html(const TrainingRecord& record) {
  std::vector<RecordRow> rows;
  for (const LostWorker& lost : record.lost_workers)
    rows.push_back({fmt::format("worker {}", lost.rank), lost_text(lost)});
  if (!rows.empty())
    rows.push_back(
        {"not trained on", fmt::format("at most {} samples, {}",
                                       count_text(static_cast<double>(lost_samples(record))),
                                       percent_text(lost_share(record)))});
  return rows_html("Lost workers", "wide", rows);
}

// Empty if the workers had equal parts of each step.
std::string parts_html(const TrainingRecord& record) {
  std::vector<RecordRow> rows;
  for (std::size_t i = 0; i < record.parts.size(); ++i)
    rows.push_back({fmt::format("worker {}", i), count_text(static_cast<double>(record.parts[i]))});
  return rows_html("Samples of a step, at the end", "", rows);
}

// Empty if all gradients were applied and none was stale.
std::string policy_html(const TrainingRecord& record) {
  if (record.staleness.size() <= 1 && record.dropped_gradients == 0) return "";
  std::vector<RecordRow> rows = {
      {"gradients not applied", count_text(static_cast<double>(record.dropped_gradients))}};
  for (std::size_t late = 0; late < record.staleness.size(); ++late)
    if (record.staleness[late] > 0)
      rows.push_back({fmt::format("{} updates late", late),
                      count_text(static_cast<double>(record.staleness[late]))});
  return rows_html("Gradients", "wide", rows);
}

std::string head_html(const TrainingRecord& record, const std::string& title) {
  std::string html = fmt::format("<header><h1>{}", title);
  if (!record.outcome.empty())
    html += fmt::format(" <span class=\"badge\">{}</span>", escape_html(record.outcome));
  html += "</h1>";
  if (!record.started.empty())
    html += fmt::format("<p>started {}</p>", escape_html(record.started));
  if (!record.command.empty())
    html += fmt::format("<pre class=\"command\">{}</pre>", escape_html(record.command));
  return html + "</header>\n";
}

}  // namespace

std::uint64_t lost_samples(const TrainingRecord& record) {
  std::uint64_t samples = 0;
  for (const LostWorker& lost : record.lost_workers) samples += lost.samples;
  return samples;
}

double lost_share(const TrainingRecord& record) {
  const std::uint64_t lost = lost_samples(record);
  if (lost == 0) return 0;
  return static_cast<double>(lost) / static_cast<double>(lost + record.samples);
}

std::string lost_text(const LostWorker& worker) {
  return fmt::format(
      "worker {} was lost after step {}; up to step {}, at most {} of its share were not trained "
      "on",
      worker.rank, worker.after_step, worker.until_step, counted(worker.samples, "sample"));
}

std::string report_html(const TrainingRecord& record) {
  const std::string title =
      record.data.empty() ? record.recipe : record.recipe + " on " + record.data;
  std::string html = head_html(record, escape_html(title));
  html += tiles_html(record);
  html += "<div class=\"cards\">\n";
  const std::vector<Chart> charts = charts_of(record);
  for (const Chart& chart : charts) html += chart_html(chart);
  // Two cards fit side by side: with an even number of charts the row is full.
  html += rows_html("Configuration", charts.size() % 2 == 0 ? "wide" : "", record.configuration);
  html += time_bars_html(record.times);
  html += parts_html(record);
  html += lost_html(record);
  html += policy_html(record);
  html += events_html(record);
  if (!record.final_text.empty())
    html += fmt::format("<section class=\"card wide\"><h2>At the end</h2><pre>{}</pre></section>\n",
                        escape_html(record.final_text));
  return page_html(title, html + "</div>\n<footer>Written by tally train.</footer>\n");
}

}  // namespace tally::app
