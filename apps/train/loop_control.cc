#include "apps/train/loop_control.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/errors.h"

namespace tally::app {

namespace {

constexpr double kAgreementSeconds = 0.2;
constexpr double kMostSteps = 100;

Error not_an_interval(std::string_view text) {
  return invalid("'{}' is not a number of steps or epochs such as 500, \"2 epochs\" or never",
                 text);
}

}  // namespace

Result<Interval> parse_interval(std::string_view text) {
  if (text == "never") return Interval{};
  std::uint64_t count = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
  if (parsed.ec != std::errc() || count == 0) return not_an_interval(text);
  std::string_view unit = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  if (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty() || unit == "step" || unit == "steps") return Interval{.steps = count};
  if (unit == "epoch" || unit == "epochs") return Interval{.epochs = count};
  return not_an_interval(text);
}

bool is_due(const Interval& interval, const Moment& before, const Moment& after) {
  if (interval.steps > 0) return before.steps / interval.steps != after.steps / interval.steps;
  if (interval.epochs > 0) return before.epochs / interval.epochs != after.epochs / interval.epochs;
  return false;
}

std::string_view to_string(StopReason reason) {
  constexpr std::array<std::string_view, 5> kTexts = {"completed", "target accuracy reached",
                                                      "stopped early: no lower test loss",
                                                      "interrupted", "diverged"};
  return kTexts.at(static_cast<std::size_t>(reason));
}

Due LoopControl::due(const Moment& before, const Moment& after, bool interrupted) const {
  const bool last = after.steps >= options_.total_steps;
  const auto happens = [&](const Interval& interval) {
    return interval != Interval{} && (last || is_due(interval, before, after));
  };
  const bool saves = options_.save != Interval{} || options_.saves_best;
  if (interrupted) return {.evaluate = false, .save = saves};
  return {.evaluate = happens(options_.evaluate), .save = happens(options_.save)};
}

std::uint64_t LoopControl::next_due(const Moment& now, const Pace& pace) const {
  std::uint64_t next = options_.total_steps;
  for (const Interval& interval : {options_.evaluate, options_.save}) {
    if (interval.steps > 0)
      next = std::min(next, (now.steps / interval.steps + 1) * interval.steps);
    if (interval.epochs > 0)
      next = std::min(next, pace.steps_until((now.epochs / interval.epochs + 1) * interval.epochs));
  }
  return std::max(next, now.steps + 1);
}

void LoopControl::observe(std::uint64_t steps, const Score& score,
                          const std::optional<LossWindows>& train) {
  // A loss that is not a number is no improvement.
  const bool better =
      std::isfinite(score.loss) &&
      score.loss < state_.best_loss.value_or(std::numeric_limits<double>::infinity());
  if (better) state_.best_loss = score.loss;
  state_.without_improvement = better ? 0 : state_.without_improvement + 1;
  divergence_ = lost_accuracy(score, state_.best_accuracy);
  const std::string lost = train ? lost_progress(score, *train) : "";
  if (lost.empty()) {
    lost_at_.reset();
  } else {
    const bool is_last = steps >= options_.total_steps ||
                         (options_.patience > 0 && state_.without_improvement >= options_.patience);
    if (divergence_.empty() && (is_last || (lost_at_ && train->complete > *lost_at_)))
      divergence_ = lost;
    if (!lost_at_) lost_at_ = train->complete;
  }
  if (score.accuracy)
    state_.best_accuracy = std::max(state_.best_accuracy.value_or(0), *score.accuracy);
}

void LossTrend::add(double mean, std::uint64_t samples) {
  sum_ += mean * static_cast<double>(samples);
  samples_ += samples;
  if (++steps_ < kLeastSteps || samples_ < kLeastSamples) return;
  windows_.last = sum_ / static_cast<double>(samples_);
  if (windows_.complete == 0 || windows_.last < windows_.lowest) windows_.lowest = windows_.last;
  ++windows_.complete;
  sum_ = 0;
  steps_ = samples_ = 0;
}

std::optional<LossWindows> LossTrend::windows() const {
  if (windows_.complete < 2) return std::nullopt;
  return windows_;
}

namespace {

// Three standard deviations of the accuracy of guessing.
double spread_of(const Score& score) {
  return 3 * std::sqrt(score.chance * (1 - score.chance) / score.predictions);
}

bool has_accuracy_of_guessing(const Score& score) {
  // If all test samples have one label, the accuracy says nothing.
  return score.accuracy && score.predictions > 0 && score.chance < 1 &&
         *score.accuracy <= score.chance + spread_of(score);
}

}  // namespace

bool is_guessing(const Score& score) {
  // A model of rare labels may predict the most frequent one everywhere and still rank well.
  constexpr double kRanks = 0.6;
  // With few test samples the spread includes good models.
  constexpr double kNear = 0.02;  // of the way from guessing to always right
  return has_accuracy_of_guessing(score) &&
         *score.accuracy <= score.chance + kNear * (1 - score.chance) &&
         score.auc.value_or(0) <= kRanks;
}

std::string lost_accuracy(const Score& score, std::optional<double> best) {
  if (!has_accuracy_of_guessing(score)) return "";
  // A tenth of the way from guessing to always right. With few test samples, the best accuracy must
  // have been well outside the spread.
  const double margin = std::max(0.1 * (1 - score.chance), 2 * spread_of(score));
  if (!best || *best < score.chance + margin || *score.accuracy >= *best) return "";
  return fmt::format(
      "the accuracy was {:.2f} % and is {:.2f} % now, which guessing gives (the most frequent "
      "label has {:.2f} %)",
      *best * 100, *score.accuracy * 100, score.chance * 100);
}

std::string lost_progress(const Score& score, const LossWindows& train) {
  if (!is_guessing(score)) return "";
  // The lowest of many windows has few rare labels, so its own variance would be too small. That of
  // a model that only knows the labels' shares is the same for all windows.
  const double error =
      score.label_deviation / std::sqrt(static_cast<double>(LossTrend::kLeastSamples));
  const bool was_better = train.lowest < 0.95 * score.label_entropy - 6 * error;
  const bool is_back = train.last > 0.98 * score.label_entropy;
  if (!was_better || !is_back) return "";
  return fmt::format(
      "the training loss fell to {:.4g} and rose to {:.4g} again, where guessing has {:.4g}; the "
      "accuracy is {:.2f} %, and the most frequent label has {:.2f} %",
      train.lowest, train.last, score.label_entropy, *score.accuracy * 100, score.chance * 100);
}

std::optional<StopReason> LoopControl::stop(std::uint64_t steps, bool interrupted) const {
  if (!divergence_.empty()) return StopReason::kDiverged;
  if (options_.target_accuracy && state_.best_accuracy.value_or(-1) >= *options_.target_accuracy)
    return StopReason::kTargetReached;
  if (options_.patience > 0 && state_.without_improvement >= options_.patience)
    return StopReason::kNoImprovement;
  if (steps >= options_.total_steps) return StopReason::kCompleted;
  if (interrupted) return StopReason::kInterrupted;
  return std::nullopt;
}

std::uint64_t steps_to_next_agreement(double step_seconds) {
  if (!(step_seconds > 0)) return 1;
  return static_cast<std::uint64_t>(std::clamp(kAgreementSeconds / step_seconds, 1.0, kMostSteps));
}

std::uint64_t total_steps(std::uint64_t epochs, std::uint64_t batches_per_epoch,
                          std::uint64_t accumulate, std::uint64_t limit) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  const bool overflows = batches_per_epoch > 0 && epochs > kMost / batches_per_epoch;
  const std::uint64_t steps = (overflows ? kMost : epochs * batches_per_epoch) / accumulate;
  return limit > 0 ? std::min(limit, steps) : steps;
}

std::uint64_t lengthened(std::uint64_t epochs, std::uint64_t least_steps,
                         std::uint64_t batches_per_epoch, std::uint64_t accumulate) {
  const std::uint64_t batches = std::max<std::uint64_t>(1, batches_per_epoch);
  return std::max(epochs, (least_steps * accumulate + batches - 1) / batches);
}

void add_regression(const RegressionSums& sums, double deviation, Score& score) {
  score.rmse = std::sqrt(sums.squared_errors / sums.samples) * deviation;
  const double spread = sums.squared_targets - sums.targets * sums.targets / sums.samples;
  if (spread > 1e-12 * sums.squared_targets) score.r2 = 1 - sums.squared_errors / spread;
}

void add_labels(std::span<const double> counts, Score& score) {
  score.predictions = std::accumulate(counts.begin(), counts.end(), 0.0);
  double squares = 0;
  for (const double count : counts) {
    if (count == 0) continue;
    const double share = count / score.predictions;
    const double loss = -std::log(share);
    score.chance = std::max(score.chance, share);
    score.label_entropy += share * loss;
    squares += share * loss * loss;
  }
  const double variance = squares - score.label_entropy * score.label_entropy;
  score.label_deviation = std::sqrt(std::max(0.0, variance));
}

// Mann and Whitney's U: in ascending order of scores, a group of equal scores with y positives and
// n negatives adds y * (negatives below) and y * n / 2.
std::optional<double> auc(std::span<const double> scores, std::span<const std::uint8_t> labels) {
  if (scores.size() != labels.size()) return std::nullopt;
  if (std::any_of(scores.begin(), scores.end(), [](double score) { return std::isnan(score); }))
    return std::nullopt;
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&scores](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double won = 0;
  double yes = 0;
  double no = 0;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double yes_here = 0;
    double no_here = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end)
      (labels[order[end]] != 0 ? yes_here : no_here) += 1;
    won += yes_here * (no + no_here / 2);
    yes += yes_here;
    no += no_here;
  }
  if (yes == 0 || no == 0) return std::nullopt;
  return won / (yes * no);
}

}  // namespace tally::app
