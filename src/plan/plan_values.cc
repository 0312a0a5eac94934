#include "plan/plan_values.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/nearest_word.h"
#include "base/option_text.h"
#include "plan/field.h"

namespace tally::plan {
namespace {

enum class Form { kAny, kWhole };

// A number without a name stands first and must be given.
struct Number {
  std::string_view word, name, example;
  double least, most;
  Form form;
  Field<Plan> field;

  bool is_first() const { return name.empty(); }
};

// A text that sets a field to a value. Settings of one word and name exclude each other.
struct Setting {
  std::string_view word, name, text;
  double value;
  Field<Plan> field;
};

constexpr double kMostWorkers = 65536;
constexpr double kMostSteps = 1e6;
constexpr double kMostMilliseconds = 3.6e6;

constexpr Number kNumbers[] = {
    {"asp", "push", "4", 1, kMostSteps, Form::kWhole, field_of<&Plan::push_every>()},
    {"asp", "fetch", "4", 1, kMostSteps, Form::kWhole, field_of<&Plan::fetch_every>()},
    {"ssp", "", "3", 0, kMostSteps, Form::kWhole, field_of<&Plan::bound>()},
    {"backup", "", "1", 0, kMostWorkers - 1, Form::kWhole, field_of<&Plan::backups>()},
    {"subset", "", "2", 1, kMostWorkers, Form::kWhole, field_of<&Plan::subset>()},
    {"kbatch", "", "4", 1, kMostWorkers, Form::kWhole, field_of<&Plan::batches>()},
    {"kasync", "", "2", 1, kMostWorkers, Form::kWhole, field_of<&Plan::batches>()},
    {"softsync", "", "2", 1, kMostWorkers, Form::kWhole, field_of<&Plan::softness>()},
    {"average",
     "",
     "50",
     1,
     kMostMilliseconds,
     Form::kWhole,
     {[](const Plan& plan) { return static_cast<double>(plan.average_every.count()); },
      [](Plan& plan, double value) {
        plan.average_every = std::chrono::milliseconds(static_cast<std::int64_t>(value));
      }}},
    {"local", "", "8", 1, kMostSteps, Form::kWhole, field_of<&Plan::local_steps>()},
    {"drop", "", "4", 0, kMostSteps, Form::kWhole, field_of<&Plan::drop_above>()},
    {"compensate", "", "0.04", 0, 1e6, Form::kAny, field_of<&Plan::compensation>()},
};
constexpr double kShared = static_cast<double>(RateShare::kShared);
constexpr double kFull = static_cast<double>(RateShare::kFull);
constexpr Setting kSettings[] = {
    {"asp", "rate", "rate=shared", kShared, field_of<&Plan::rate>()},
    {"asp", "rate", "rate=full", kFull, field_of<&Plan::rate>()},
    {"asp", "momentum", "momentum=kept", 1, field_of<&Plan::kept_momentum>()},
    {"ssp", "rate", "rate=shared", kShared, field_of<&Plan::rate>()},
    {"ssp", "rate", "rate=full", kFull, field_of<&Plan::rate>()},
    {"ssp", "momentum", "momentum=kept", 1, field_of<&Plan::kept_momentum>()},
    {"kasync", "rate", "rate=shared", kShared, field_of<&Plan::rate>()},
    {"kasync", "rate", "rate=full", kFull, field_of<&Plan::rate>()},
    {"kasync", "momentum", "momentum=kept", 1, field_of<&Plan::kept_momentum>()},
    {"softsync", "rate", "rate=shared", kShared, field_of<&Plan::rate>()},
    {"softsync", "rate", "rate=full", kFull, field_of<&Plan::rate>()},
    {"softsync", "momentum", "momentum=kept", 1, field_of<&Plan::kept_momentum>()},
    {"kbatch", "async", "async", 1, field_of<&Plan::any_version>()},
    {"kbatch", "rate", "rate=shared", kShared, field_of<&Plan::rate>()},
    {"kbatch", "rate", "rate=full", kFull, field_of<&Plan::rate>()},
    {"kbatch", "momentum", "momentum=kept", 1, field_of<&Plan::kept_momentum>()},
    {"compensate", "adaptive", "adaptive", 1, field_of<&Plan::adaptive>()},
};

// The settings that follow the word's first number.
std::vector<std::string_view> names_of(std::string_view word) {
  std::vector<std::string_view> names;
  for (const Number& number : kNumbers) {
    if (number.word == word && !number.is_first()) names.push_back(number.name);
  }
  for (const Setting& setting : kSettings) {
    if (setting.word == word) names.push_back(setting.text);
  }
  return names;
}

const Number* first_of(std::string_view word) {
  const auto* const found =
      std::find_if(std::begin(kNumbers), std::end(kNumbers),
                   [word](const Number& n) { return n.word == word && n.is_first(); });
  return found == std::end(kNumbers) ? nullptr : found;
}

Result<double> parse_as(Form form, std::string_view text) {
  auto value = parse_number(text);
  if (value && form == Form::kWhole) TALLY_TRY(parse_count(text));
  return value;
}

Result<void> read_number(std::string_view answer, const Number& number, std::string_view text,
                         Plan& plan) {
  const auto value = parse_as(number.form, text);
  if (!value) return invalid(fmt::format("{}: {}", answer, value.error().message));
  // check_values() cannot check a number that does not fit its field.
  if (!(*value >= number.least && *value <= number.most)) {
    return invalid(
        fmt::format("{}: {} is not from {} to {}", answer, text, number.least, number.most));
  }
  number.field.set(plan, *value);
  return {};
}

// Reads a setting behind the first number; returns its name in the table.
Result<std::string_view> read_item(std::string_view answer, std::string_view word,
                                   std::string_view item, Plan& plan) {
  for (const Setting& setting : kSettings) {
    if (setting.word != word || setting.text != item) continue;
    setting.field.set(plan, setting.value);
    return setting.name;
  }
  const std::size_t equals = std::min(item.find('='), item.size());
  for (const Number& number : kNumbers) {
    if (number.word != word || number.is_first() || number.name != item.substr(0, equals)) continue;
    TALLY_TRY(read_number(answer, number, item.substr(std::min(equals + 1, item.size())), plan));
    return number.name;
  }
  const auto names = names_of(word);
  if (names.empty()) {
    return invalid(fmt::format("{}: {} takes one number and nothing else", answer, word));
  }
  return invalid(
      fmt::format("{}: {}", answer, unknown_word(item, fmt::format("setting of {}", word), names)));
}

}  // namespace

Result<void> read_values(std::string_view answer, std::string_view word, std::string_view text,
                         Plan& plan) {
  const Number* const first = first_of(word);
  if (first == nullptr && text.empty()) return {};
  if (first == nullptr && names_of(word).empty()) {
    return invalid(fmt::format("{}: {} takes no settings", answer, word));
  }
  if (first != nullptr && text.empty()) {
    return invalid(
        fmt::format("{}: {} takes a number, as in {}:{}", answer, word, word, first->example));
  }
  std::vector<std::string_view> read;
  for (bool more = true, at_first = first != nullptr; more; at_first = false) {
    const std::size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    const std::string_view item = text.substr(0, comma);
    if (more) text.remove_prefix(comma + 1);
    if (at_first) {
      TALLY_TRY(read_number(answer, *first, item, plan));
      continue;
    }
    TALLY_TRY(const std::string_view name, read_item(answer, word, item, plan));
    if (std::find(read.begin(), read.end(), name) != read.end()) {
      return invalid(fmt::format("{}: {} is given twice", answer, name));
    }
    read.push_back(name);
  }
  return {};
}

std::string values_text(std::string_view word, const Plan& plan) {
  std::vector<std::string> items;
  for (const Number& number : kNumbers) {
    if (number.word != word) continue;
    const double value = number.field.get(plan);
    if (!number.is_first() && value == number.field.get(Plan())) continue;
    items.push_back(fmt::format("{}{}{}", number.name, number.is_first() ? "" : "=", value));
  }
  for (const Setting& setting : kSettings) {
    if (setting.word == word && setting.field.get(plan) == setting.value)
      items.emplace_back(setting.text);
  }
  return items.empty() ? "" : fmt::format(":{}", fmt::join(items, ","));
}

Result<void> check_values(std::string_view word, const Plan& plan) {
  for (const Number& number : kNumbers) {
    if (number.word != word) continue;
    const double value = number.field.get(plan);
    if (value >= number.least && value <= number.most) continue;
    return invalid(fmt::format("{}{}{}: {} is not from {} to {}", word,
                               number.is_first() ? "" : ":", number.name, value, number.least,
                               number.most));
  }
  return {};
}

void copy_values(std::string_view word, const Plan& from, Plan& to) {
  for (const Number& number : kNumbers) {
    if (number.word == word) number.field.set(to, number.field.get(from));
  }
  for (const Setting& setting : kSettings) {
    if (setting.word == word) setting.field.set(to, setting.field.get(from));
  }
}

}  // namespace tally::plan
