#include "tally/optimizer.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/nearest_word.h"
#include "base/option_text.h"

namespace tally {
namespace {

using Kind = OptimizerKind;

// The name of an optimizer in text. Three names are kSgd.
struct Word {
  std::string_view name;
  OptimizerSpec (*defaults)();
};
constexpr Word kWords[] = {
    {"sgd", [] { return sgd(); }},
    {"momentum", [] { return sgd({.momentum = 0.9}); }},
    {"nesterov", [] { return sgd({.momentum = 0.9, .nesterov = true}); }},
    {"adagrad", [] { return adagrad(); }},
    {"adam", [] { return adam(); }},
    {"adamw", [] { return adamw(); }},
    {"lamb", [] { return lamb(); }},
    {"lars", [] { return lars(); }},
    {"ftrl", [] { return ftrl(); }},
};

constexpr unsigned bit(Kind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kAdams = bit(Kind::kAdam) | bit(Kind::kAdamW) | bit(Kind::kLamb);
constexpr unsigned kDecaying = kAdams | bit(Kind::kSgd) | bit(Kind::kAdagrad) | bit(Kind::kLars);
constexpr unsigned kAll = kDecaying | bit(Kind::kFtrl);

// A setting, the kinds that have it, and its range: from 0 to `most`, which is in the range or not.
struct Setting {
  std::string_view name;
  double OptimizerSpec::*field;
  unsigned kinds;
  double most = std::numeric_limits<double>::max();
  bool most_allowed = true;
};
constexpr Setting kSettings[] = {
    {"rate", &OptimizerSpec::rate, kAll},
    {"momentum", &OptimizerSpec::momentum, bit(Kind::kSgd) | bit(Kind::kLars), 1, false},
    {"dampening", &OptimizerSpec::dampening, bit(Kind::kSgd), 1},
    {"beta1", &OptimizerSpec::beta1, kAdams, 1, false},
    {"beta2", &OptimizerSpec::beta2, kAdams, 1, false},
    {"epsilon", &OptimizerSpec::epsilon, kDecaying & ~bit(Kind::kSgd)},
    {"decay", &OptimizerSpec::weight_decay, kDecaying},
    {"rate_decay", &OptimizerSpec::rate_decay, bit(Kind::kAdagrad)},
    {"initial", &OptimizerSpec::initial_accumulator, bit(Kind::kAdagrad)},
    {"trust", &OptimizerSpec::trust, bit(Kind::kLars)},
    {"ratio_min", &OptimizerSpec::ratio_min, bit(Kind::kLamb)},
    {"ratio_max", &OptimizerSpec::ratio_max, bit(Kind::kLamb)},
    {"beta", &OptimizerSpec::beta, bit(Kind::kFtrl)},
    {"l1", &OptimizerSpec::l1, bit(Kind::kFtrl)},
    {"l2", &OptimizerSpec::l2, bit(Kind::kFtrl)},
};

// A whole number, so it is not in the table.
constexpr std::string_view kFreeze = "freeze";
bool has_freeze(Kind kind) { return kind == Kind::kAdam || kind == Kind::kAdamW; }

// Not a number.
constexpr std::string_view kAdapt = "adapt";
bool has_adapt(Kind kind) { return kind == Kind::kLamb || kind == Kind::kLars; }

bool has(Kind kind, const Setting& setting) { return (setting.kinds & bit(kind)) != 0; }

// nullptr for an unknown kind.
const Word* find_word(const OptimizerSpec& spec) {
  if (spec.kind == Kind::kSgd) return &kWords[spec.nesterov ? 2 : spec.momentum != 0 ? 1 : 0];
  for (const Word& word : kWords)
    if (word.defaults().kind == spec.kind) return &word;
  return nullptr;
}

std::string_view word_of(const OptimizerSpec& spec) {
  const Word* const word = find_word(spec);
  return word == nullptr ? "unknown" : word->name;
}

Result<void> set(OptimizerSpec& spec, std::string_view word, const OptionText::Option& option) {
  if (has_freeze(spec.kind) && option.key == kFreeze) {
    const auto count = parse_count(option.value);
    if (!count) return invalid(fmt::format("{}: {}", kFreeze, count.error().message));
    spec.freeze_after = *count;
    return {};
  }
  if (has_adapt(spec.kind) && option.key == kAdapt) {
    if (option.value != "on" && option.value != "off")
      return invalid(fmt::format("{}: '{}' is neither on nor off", kAdapt, option.value));
    spec.adapts = option.value == "on";
    return {};
  }
  std::vector<std::string_view> names;
  for (const Setting& setting : kSettings) {
    if (!has(spec.kind, setting)) continue;
    names.push_back(setting.name);
    if (setting.name != option.key) continue;
    const auto number = parse_number(option.value);
    if (!number) return invalid(fmt::format("{}: {}", option.key, number.error().message));
    spec.*setting.field = *number;
    return {};
  }
  if (has_freeze(spec.kind)) names.push_back(kFreeze);
  if (has_adapt(spec.kind)) names.push_back(kAdapt);
  return invalid(unknown_word(option.key, fmt::format("setting of {}", word), names));
}

Result<void> check_value(const OptimizerSpec& spec, const Setting& setting) {
  const double value = spec.*setting.field;
  if (!has(spec.kind, setting)) {
    if (value == OptimizerSpec().*setting.field) return {};
    return invalid(
        fmt::format("{} has no {}, but it is set to {}", word_of(spec), setting.name, value));
  }
  const bool low_enough = setting.most_allowed ? value <= setting.most : value < setting.most;
  if (value >= 0 && low_enough) return {};
  const bool bounded = setting.most == 1;
  const std::string_view range = !bounded               ? "a finite number from 0"
                                 : setting.most_allowed ? "from 0 to 1"
                                                        : "from 0 to below 1";
  return invalid(
      fmt::format("{} of {} is {}, must be {}", setting.name, word_of(spec), value, range));
}

}  // namespace

OptimizerSpec sgd(const SgdOptions& options) {
  return {.kind = Kind::kSgd,
          .rate = options.rate,
          .momentum = options.momentum,
          .dampening = options.dampening,
          .nesterov = options.nesterov,
          .weight_decay = options.weight_decay};
}

OptimizerSpec adagrad(const AdagradOptions& options) {
  return {.kind = Kind::kAdagrad,
          .rate = options.rate,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay,
          .rate_decay = options.rate_decay,
          .initial_accumulator = options.initial_accumulator};
}

OptimizerSpec adam(const AdamOptions& options) {
  return {.kind = Kind::kAdam,
          .rate = options.rate,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay};
}

OptimizerSpec adamw(const AdamWOptions& options) {
  return {.kind = Kind::kAdamW,
          .rate = options.rate,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay};
}

OptimizerSpec lamb(const LambOptions& options) {
  return {.kind = Kind::kLamb,
          .rate = options.rate,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay,
          .ratio_min = options.ratio_min,
          .ratio_max = options.ratio_max};
}

OptimizerSpec lars(const LarsOptions& options) {
  return {.kind = Kind::kLars,
          .rate = options.rate,
          .momentum = options.momentum,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay,
          .trust = options.trust};
}

OptimizerSpec ftrl(const FtrlOptions& options) {
  return {.kind = Kind::kFtrl,
          .rate = options.rate,
          .beta = options.beta,
          .l1 = options.l1,
          .l2 = options.l2};
}

Result<OptimizerSpec> parse_optimizer(std::string_view text) {
  TALLY_TRY(const OptionText parts, parse_option_text(text));
  const auto* const word =
      std::find_if(std::begin(kWords), std::end(kWords),
                   [&parts](const Word& known) { return known.name == parts.name; });
  if (word == std::end(kWords)) {
    std::vector<std::string_view> names;
    for (const Word& known : kWords) names.push_back(known.name);
    return invalid(unknown_word(parts.name, "optimizer", names));
  }
  OptimizerSpec spec = word->defaults();
  for (const auto& option : parts.options) TALLY_TRY(set(spec, word->name, option));
  TALLY_TRY(check(spec));
  return spec;
}

std::string to_string(const OptimizerSpec& spec) {
  const Word* const word = find_word(spec);
  const OptimizerSpec defaults = word == nullptr ? OptimizerSpec() : word->defaults();
  std::string text(word_of(spec));
  char separator = ':';
  for (const Setting& setting : kSettings) {
    if (!has(spec.kind, setting) || spec.*setting.field == defaults.*setting.field) continue;
    text += fmt::format("{}{}={}", separator, setting.name, spec.*setting.field);
    separator = ',';
  }
  if (spec.freeze_after > 0) text += fmt::format("{}{}={}", separator, kFreeze, spec.freeze_after);
  if (!spec.adapts) text += fmt::format("{}{}=off", separator, kAdapt);
  return text;
}

Result<void> check(const OptimizerSpec& spec) {
  if (find_word(spec) == nullptr) return invalid("no such kind of optimizer");
  for (const Setting& setting : kSettings) TALLY_TRY(check_value(spec, setting));
  if (spec.nesterov) {
    if (spec.kind != Kind::kSgd) {
      return invalid(fmt::format("{} has no nesterov, but it is set", word_of(spec)));
    }
    if (spec.momentum == 0) return invalid("nesterov needs a momentum above 0");
    if (spec.dampening != 0) return invalid("nesterov needs a dampening of 0");
  }
  if (spec.freeze_after > 0 && !has_freeze(spec.kind)) {
    return invalid(fmt::format("{} has no {}, but it is set to {}", word_of(spec), kFreeze,
                               spec.freeze_after));
  }
  if (!spec.adapts && !has_adapt(spec.kind))
    return invalid(fmt::format("{} has no {}, but it is off", word_of(spec), kAdapt));
  // A double, by which text is parsed, has no larger whole numbers.
  if (spec.freeze_after > (1ULL << 53))
    return invalid(fmt::format("{} of {} is {}, the limit is 2^53", kFreeze, word_of(spec),
                               spec.freeze_after));
  // ftrl divides by its rate.
  if (spec.kind == Kind::kFtrl && spec.rate == 0) return invalid("ftrl needs a rate above 0");
  if (spec.ratio_min > spec.ratio_max) {
    return invalid(fmt::format("ratio_min of {} is {}, above ratio_max, which is {}", word_of(spec),
                               spec.ratio_min, spec.ratio_max));
  }
  return {};
}

}  // namespace tally
