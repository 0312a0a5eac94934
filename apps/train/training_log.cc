#include "apps/train/training_log.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/train/report_parts.h"
#include "apps/train/train_console.h"
#include "base/counted.h"
#include "base/units.h"

namespace tally::app {
namespace {

double recorded_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Returns a line about stale and dropped gradients, after a newline; empty if there were none.
std::string staleness_text(const TrainingRecord& record) {
  if (record.staleness.size() <= 1 && record.dropped_gradients == 0) return "";
  double applied = 0;
  double late = 0;
  for (std::size_t bin = 0; bin < record.staleness.size(); ++bin) {
    applied += static_cast<double>(record.staleness[bin]);
    late += static_cast<double>(bin * record.staleness[bin]);
  }
  return fmt::format("\n  gradients: {} applied, on average {:.2f} updates late; {} too late",
                     applied, applied > 0 ? late / applied : 0.0, record.dropped_gradients);
}

// Returns lines about lost workers, each after a newline; empty if there are none.
std::string lost_workers_text(const TrainingRecord& record) {
  if (record.lost_workers.empty()) return "";
  std::string text;
  for (const LostWorker& lost : record.lost_workers)
    text += fmt::format("\n  warning: {}", lost_text(lost));
  return text + fmt::format(
                    "\n  warning: at most {}, {:.2g} % of the training, were not trained on, "
                    "because workers were lost",
                    counted(lost_samples(record), "sample"), lost_share(record) * 100);
}

// Returns lines about checkpoints that could not be written, each after a newline; empty if there
// are none. Another worker may have written them: then this one does not know the reason.
std::string unsaved_text(const TrainingRecord& record) {
  if (record.unsaved.empty())
    return record.last_save_failed ? "\n  error: the state at the end is not saved" : "";
  const std::string& last = record.unsaved.back().text;
  const std::size_t earlier = record.unsaved.size() - (record.last_save_failed ? 1 : 0);
  std::string text;
  if (earlier > 0)
    text = fmt::format("\n  warning: {} of the earlier checkpoints could not be written{}", earlier,
                       record.last_save_failed ? "" : ": " + last);
  if (record.last_save_failed) text += "\n  error: the state at the end is not saved: " + last;
  return text;
}

}  // namespace

void RunningMean::add(double mean, std::uint64_t samples) {
  sum_ += mean * static_cast<double>(samples);
  samples_ += samples;
}

std::optional<double> RunningMean::mean() const {
  if (samples_ == 0) return std::nullopt;
  return sum_ / static_cast<double>(samples_);
}

void TrainingLog::step(double loss, std::uint64_t samples, std::uint64_t units) {
  since_point_.add(loss, samples);
  since_evaluation_.add(loss, samples);
  record_.samples += samples;
  units_ += units;
}

void TrainingLog::point(const Moment& moment, double epochs, Duration at, double rate) {
  RecordPoint point{.step = moment.steps,
                    .epoch = epochs,
                    .train_loss = since_point_.mean(),
                    .rate = rate,
                    .at_s = recorded_seconds(at)};
  const double elapsed = recorded_seconds(at - point_at_);
  if (elapsed > 0 && units_ > units_at_point_)
    point.samples_per_s = static_cast<double>(units_ - units_at_point_) / elapsed;
  record_.points.push_back(point);
  if (const auto loss = since_evaluation_.mean()) record_.train_loss = loss;
  since_point_.clear();
  units_at_point_ = units_;
  point_at_ = at;
}

void TrainingLog::evaluation(const Moment& moment, double epochs, const Span& span,
                             const Score& score) {
  record_.points.push_back({.step = moment.steps,
                            .epoch = epochs,
                            .test_loss = score.loss,
                            .accuracy = score.accuracy,
                            .auc = score.auc,
                            .at_s = recorded_seconds(span.begin)});
  if (const auto loss = since_evaluation_.mean()) record_.train_loss = loss;
  since_evaluation_.clear();
  record_.test_loss = score.loss;
  if (score.loss < record_.best_test_loss.value_or(std::numeric_limits<double>::infinity())) {
    record_.best_test_loss = score.loss;
    record_.best_step = moment.steps;
  }
  record_.accuracy = score.accuracy;
  record_.auc = score.auc;
  record_.rmse = score.rmse;
  record_.majority_accuracy = is_guessing(score) ? std::optional(score.chance) : std::nullopt;
  if (score.accuracy)
    record_.best_accuracy = std::max(record_.best_accuracy.value_or(0), *score.accuracy);
  point_at_ += span.end - span.begin;
}

void TrainingLog::event(std::uint64_t step, std::string text) {
  record_.events.push_back({.step = step, .text = std::move(text)});
}

void TrainingLog::save_failed(std::uint64_t step, const std::string& reason) {
  record_.unsaved.push_back(
      {.step = step,
       .text = fmt::format("the checkpoint of step {} was not written: {}", step, reason)});
  record_.events.push_back(record_.unsaved.back());
}

TrainingRecord& TrainingLog::finish(const Moment& moment, double epochs, Duration elapsed,
                                    StopReason reason) {
  record_.steps = moment.steps;
  record_.epochs = epochs;
  record_.elapsed = elapsed;
  record_.outcome = to_string(reason);
  // A training that ended before its first point.
  if (!record_.train_loss) record_.train_loss = since_evaluation_.mean();
  if (elapsed > Duration::zero() && units_ > 0)
    record_.samples_per_s = static_cast<double>(units_) / recorded_seconds(elapsed);
  return record_;
}

std::string summary_of(const TrainingRecord& record) {
  std::string text = fmt::format("{} after {}, {} epoch{}, {}: ", record.outcome,
                                 counted(record.steps, "step"), number_text(record.epochs),
                                 record.epochs == 1 ? "" : "s", clock_text(record.elapsed));
  if (record.train_loss) text += fmt::format("train loss {:.4f}, ", *record.train_loss);
  if (record.test_loss) text += fmt::format("test loss {:.4f}, ", *record.test_loss);
  if (record.accuracy) text += fmt::format("accuracy {:.2f} %, ", *record.accuracy * 100);
  if (record.auc) text += fmt::format("AUC {:.4f}, ", *record.auc);
  if (record.rmse) text += fmt::format("RMSE {}, ", number_text(*record.rmse));
  text += fmt::format("{} {}/s", short_count(record.samples_per_s.value_or(0)), record.unit);
  if (record.best_test_loss && record.test_loss && *record.best_test_loss < *record.test_loss)
    text += fmt::format("\n  lowest test loss {:.4f}, after step {}", *record.best_test_loss,
                        record.best_step);
  text += staleness_text(record);
  if (record.discarded_updates > 0)
    text += fmt::format("\n  {} discarded, because a gradient was too large for float16",
                        counted(record.discarded_updates, "update"));
  if (record.model_memory_bytes > 0)
    text += fmt::format("\n  memory: {} on each host for values, gradients and optimizer state",
                        format_bytes(record.model_memory_bytes));
  for (const WorkerTimes& times : record.times) {
    const TimeShares shares = shares_of(times.compute, times.communicate, times.wait, times.data);
    text += fmt::format(
        "\n  worker {}: compute {:.1f} %, communicate {:.1f} %, wait {:.1f} %, data {:.1f} %",
        times.rank, shares.compute * 100, shares.communicate * 100, shares.wait * 100,
        shares.data * 100);
  }
  if (!record.parts.empty())
    text += fmt::format("\n  samples of a step by worker, at the end: {}",
                        fmt::join(record.parts, ", "));
  if (!record.divergence.empty())
    text += fmt::format(
        "\n  error: {}; a lower --rate, --clip-norm or a plan with fewer late gradients may help",
        record.divergence);
  else if (record.majority_accuracy)
    text += fmt::format(
        "\n  warning: the accuracy is no better than that of always answering the most frequent "
        "label, {:.2f} %; a lower --rate or a longer training may help",
        *record.majority_accuracy * 100);
  return text + lost_workers_text(record) + unsaved_text(record);
}

}  // namespace tally::app
