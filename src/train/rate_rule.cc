#include "train/rate_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/nearest_word.h"
#include "base/option_text.h"

namespace tally::train {
namespace {

using Kind = RateKind;

// In the order of RateKind; kCustom has no text.
constexpr std::string_view kNames[] = {"constant", "step",     "multistep", "cosine",
                                       "linear",   "onecycle", "plateau"};

constexpr unsigned bit(Kind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kAll = ~0U;
constexpr unsigned kEnding = bit(Kind::kCosine) | bit(Kind::kLinear) | bit(Kind::kOnecycle);
constexpr double kNoLimit = std::numeric_limits<double>::max();

struct Setting {
  std::string_view name;
  double RateRule::*field;
  unsigned kinds;
  double least, most;
  bool whole = false;
};
constexpr Setting kSettings[] = {
    {"every", &RateRule::every, bit(Kind::kStep), 1, kNoLimit, true},
    {"factor", &RateRule::factor, bit(Kind::kStep) | bit(Kind::kMultistep) | bit(Kind::kPlateau), 0,
     1},
    {"min", &RateRule::min, bit(Kind::kCosine) | bit(Kind::kLinear) | bit(Kind::kPlateau), 0, 1},
    {"peak", &RateRule::peak, bit(Kind::kOnecycle), 0, 1},
    {"start", &RateRule::start, bit(Kind::kOnecycle), 1, kNoLimit},
    {"end", &RateRule::end, bit(Kind::kOnecycle), 1, kNoLimit},
    {"patience", &RateRule::patience, bit(Kind::kPlateau), 0, kNoLimit, true},
    {"threshold", &RateRule::threshold, bit(Kind::kPlateau), 0, 1},
    {"warmup", &RateRule::warmup, kAll, 0, kNoLimit, true},
    {"total", &RateRule::total, kEnding, 1, kNoLimit, true},
};

bool has(const RateRule& rule, const Setting& setting) {
  return (setting.kinds & bit(rule.kind)) != 0;
}

std::string_view name_of(const RateRule& rule) {
  return rule.kind == Kind::kCustom ? "custom" : kNames[static_cast<std::size_t>(rule.kind)];
}

Result<void> set_steps(RateRule& rule, std::string_view text) {
  for (bool more = true; more;) {
    const std::size_t semicolon = text.find(';');
    more = semicolon != std::string_view::npos;
    const auto step = parse_count(text.substr(0, semicolon));
    if (!step) return invalid(fmt::format("at: {}", step.error().message));
    if (!rule.at.empty() && *step <= rule.at.back()) {
      return invalid(fmt::format("at: step {} does not come after {}", *step, rule.at.back()));
    }
    rule.at.push_back(*step);
    if (more) text.remove_prefix(semicolon + 1);
  }
  return {};
}

Result<void> set_number(RateRule& rule, const Setting& setting, std::string_view text) {
  if (setting.whole) {
    const auto count = parse_count(text);
    if (!count) return invalid(fmt::format("{}: {}", setting.name, count.error().message));
    rule.*setting.field = static_cast<double>(*count);
  } else {
    const auto number = parse_number(text);
    if (!number) return invalid(fmt::format("{}: {}", setting.name, number.error().message));
    rule.*setting.field = *number;
  }
  const double value = rule.*setting.field;
  if (value >= setting.least && value <= setting.most) return {};
  return invalid(
      setting.most == kNoLimit
          ? fmt::format("{} is {}, must be {} or more", setting.name, text, setting.least)
          : fmt::format("{} is {}, must be from {} to {}", setting.name, text, setting.least,
                        setting.most));
}

Result<void> set(RateRule& rule, const OptionText::Option& option) {
  std::vector<std::string_view> names;
  if (rule.kind == Kind::kMultistep) {
    if (option.key == "at") return set_steps(rule, option.value);
    names.emplace_back("at");
  }
  for (const Setting& setting : kSettings) {
    if (!has(rule, setting)) continue;
    if (setting.name == option.key) return set_number(rule, setting, option.value);
    names.push_back(setting.name);
  }
  return invalid(unknown_word(option.key, fmt::format("setting of {}", name_of(rule)), names));
}

double end_of(const RateRule& rule) { return rule.total > 0 ? rule.total : rule.total_steps; }

Result<void> check_whole(const RateRule& rule) {
  if (rule.kind == Kind::kStep && rule.every == 0) {
    return invalid("step needs every=N, in steps");
  }
  if (rule.kind == Kind::kMultistep && rule.at.empty()) {
    return invalid("multistep needs at=N;N, in steps");
  }
  if (rule.kind == Kind::kOnecycle && (rule.peak == 0 || rule.peak == 1)) {
    return invalid("peak of onecycle is a share of the steps above 0 and below 1");
  }
  if ((kEnding & bit(rule.kind)) == 0) return {};
  if (end_of(rule) == 0) {
    return invalid(fmt::format("{} needs total=N, the steps until its end", name_of(rule)));
  }
  if (rule.warmup >= end_of(rule)) {
    return invalid(fmt::format("warmup of {} steps leaves nothing of {} for {}", rule.warmup,
                               end_of(rule), name_of(rule)));
  }
  return {};
}

// Interpolates from `from` to `to` along half a cosine.
double half_cosine(double from, double to, double share) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
}

// The factor rises from 1 / start to 1 at the last step of the share `peak`, and then falls to 1 /
// (start * end) at the last step.
double onecycle(const RateRule& rule, double step, double steps) {
  const double top = rule.peak * steps - 1;
  const double last = steps - 1;
  const double low = 1 / rule.start;
  if (step < top) return half_cosine(low, 1, step / top);
  const double begin = std::max(top, 0.0);
  const double share = last > begin ? (step - begin) / (last - begin) : 1;
  return half_cosine(1, low / rule.end, std::min(share, 1.0));
}

// The factor without warm-up. Schedules with an end begin after the warm-up; `every` and `at` count
// from the start of the training.
double shape(const RateRule& rule, std::uint64_t step_number) {
  const auto step = static_cast<double>(step_number);
  const double since = std::max(step - rule.warmup, 0.0);
  const double steps = end_of(rule) - rule.warmup;
  switch (rule.kind) {
    case Kind::kStep:
      return std::pow(rule.factor, std::floor(step / rule.every));
    case Kind::kMultistep: {
      const auto passed = std::upper_bound(rule.at.begin(), rule.at.end(), step_number);
      return std::pow(rule.factor, static_cast<double>(passed - rule.at.begin()));
    }
    case Kind::kCosine:
      return half_cosine(1, rule.min, std::min(since / steps, 1.0));
    case Kind::kLinear:
      return 1 + (rule.min - 1) * std::min(since / steps, 1.0);
    case Kind::kOnecycle:
      return onecycle(rule, since, steps);
    case Kind::kConstant:
    case Kind::kPlateau:
    case Kind::kCustom:
      break;
  }
  return 1;
}

}  // namespace

Result<RateRule> parse_rate_rule(std::string_view text, std::uint64_t total_steps) {
  TALLY_TRY(const OptionText parts, parse_option_text(text));
  const auto* const name = std::find(std::begin(kNames), std::end(kNames), parts.name);
  if (name == std::end(kNames)) return invalid(unknown_word(parts.name, "rate schedule", kNames));
  RateRule rule;
  rule.kind = static_cast<Kind>(name - std::begin(kNames));
  rule.total_steps = static_cast<double>(total_steps);
  for (const auto& option : parts.options) TALLY_TRY(set(rule, option));
  TALLY_TRY(check_whole(rule));
  return rule;
}

std::string to_string(const RateRule& rule) {
  std::vector<std::string> options;
  if (!rule.at.empty()) options.push_back(fmt::format("at={}", fmt::join(rule.at, ";")));
  const RateRule defaults;
  for (const Setting& setting : kSettings) {
    const double value = rule.*setting.field;
    if (value != defaults.*setting.field) {
      options.push_back(fmt::format("{}={}", setting.name, value));
    }
  }
  return fmt::format("{}{}{}", name_of(rule), options.empty() ? "" : ":", fmt::join(options, ","));
}

double factor_of(const RateRule& rule, std::uint64_t step) {
  if (rule.kind == Kind::kCustom) return rule.custom(step);
  const auto number = static_cast<double>(step);
  const double ramp = number < rule.warmup ? (number + 1) / rule.warmup : 1;
  return ramp * shape(rule, step);
}

}  // namespace tally::train
