#include "tally/rate_schedule.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "base/option_text.h"
#include "train/rate_rule.h"

namespace tally {

struct RateSchedule::Rule : train::RateRule {};

namespace {

bool is_plateau(const train::RateRule* rule) {
  return rule != nullptr && rule->kind == train::RateKind::kPlateau;
}

Error misfit(std::string_view state, std::string_view why) {
  return {.code = ErrorCode::kInvalid,
          .message = fmt::format("'{}' is not the state of this rate schedule: {}", state, why)};
}

}  // namespace

Result<RateSchedule> RateSchedule::parse(std::string_view text, std::uint64_t total_steps) {
  TALLY_TRY(train::RateRule rule, train::parse_rate_rule(text, total_steps));
  RateSchedule schedule;
  schedule.rule_ = std::make_shared<const Rule>(Rule{std::move(rule)});
  return schedule;
}

RateSchedule RateSchedule::custom(std::function<double(std::uint64_t)> factor) {
  TALLY_CHECK(factor != nullptr);
  Rule rule;
  rule.kind = train::RateKind::kCustom;
  rule.custom = std::move(factor);
  RateSchedule schedule;
  schedule.rule_ = std::make_shared<const Rule>(std::move(rule));
  return schedule;
}

double RateSchedule::factor(std::uint64_t step) const {
  return rule_ == nullptr ? 1 : level_ * train::factor_of(*rule_, step);
}

// A metric is better if it is lower by more than the relative `threshold`, as in PyTorch's
// ReduceLROnPlateau.
void RateSchedule::observe(double metric) {
  if (!is_plateau(rule_.get())) return;
  const bool first = !std::isfinite(best_);
  const bool better = std::isfinite(metric) && (first || metric < best_ * (1 - rule_->threshold));
  if (better) {
    best_ = metric;
    worse_count_ = 0;
    return;
  }
  ++worse_count_;
  if (static_cast<double>(worse_count_) <= rule_->patience) return;
  worse_count_ = 0;
  level_ = std::max(level_ * rule_->factor, rule_->min);
}

std::string RateSchedule::state() const {
  if (!is_plateau(rule_.get())) return "";
  const std::string best = std::isfinite(best_) ? fmt::format("best={},", best_) : "";
  return fmt::format("plateau:{}worse={},level={}", best, worse_count_, level_);
}

Result<void> RateSchedule::restore(std::string_view state) {
  if (!is_plateau(rule_.get())) {
    if (state.empty()) return {};
    return misfit(state, fmt::format("{} has none", text()));
  }
  const auto parts = parse_option_text(state);
  if (!parts) return misfit(state, parts.error().message);
  if (parts->name != "plateau") return misfit(state, "it does not begin with 'plateau'");
  RateSchedule restored = *this;
  restored.best_ = RateSchedule().best_;
  bool has_worse = false, has_level = false;
  for (const auto& option : parts->options) {
    const auto number = parse_number(option.value);
    if (!number) return misfit(state, number.error().message);
    const auto count = parse_count(option.value);
    if (option.key == "best") {
      restored.best_ = *number;
    } else if (option.key == "worse" && count) {
      restored.worse_count_ = *count;
      has_worse = true;
    } else if (option.key == "level" && *number >= 0 && *number <= 1) {
      restored.level_ = *number;
      has_level = true;
    } else {
      return misfit(state, fmt::format("{}={}", option.key, option.value));
    }
  }
  if (!has_worse || !has_level) return misfit(state, "it needs worse and level");
  *this = std::move(restored);
  return {};
}

std::string RateSchedule::text() const {
  return rule_ == nullptr ? "constant" : train::to_string(*rule_);
}

}  // namespace tally
