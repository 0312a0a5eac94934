#include "apps/train/option_texts.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/units.h"

namespace tally::app {

namespace {

constexpr std::uint64_t kMostServers = 4096;
constexpr std::uint64_t kMostRecordedSteps = 10000;

Error invalid_servers(std::string_view text) {
  return invalid(
      "'{}': expected a number from 1 to {}, as in 2 or "
      "2,colocated, or the HOST:PORT of a directory",
      text, kMostServers);
}

// A whole number from 1 to `most`.
std::optional<std::uint64_t> number_up_to(std::uint64_t most, std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 1 || value > most)
    return std::nullopt;
  return value;
}

Result<std::uint64_t> setting_number(std::string_view name, std::string_view text,
                                     std::uint64_t most) {
  if (const auto value = number_up_to(most, text)) return *value;
  return invalid("{}={}: a number from 1 to {} is needed", name, text, most);
}

}  // namespace

Result<ServerChoice> parse_servers(std::string_view text) {
  using Kind = ServerChoice::Kind;
  if (text.empty()) return ServerChoice{};
  if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    if (colon == 0 || !number_up_to(65535, text.substr(colon + 1))) return invalid_servers(text);
    return ServerChoice{.kind = Kind::kElsewhere, .address = std::string(text)};
  }
  const std::size_t comma = text.find(',');
  const std::string_view number = text.substr(0, comma);
  const bool colocated = comma != std::string_view::npos;
  if (colocated && text.substr(comma + 1) != "colocated") return invalid_servers(text);
  const auto count = number_up_to(kMostServers, number);
  if (!count) return invalid_servers(text);
  return ServerChoice{.kind = colocated ? Kind::kColocated : Kind::kProcesses,
                      .count = static_cast<int>(*count)};
}

std::string_view optimizer_name(std::string_view text) { return text.substr(0, text.find(':')); }

Result<OptimizerSpec> choose_optimizer(const std::string& text, std::optional<double> rate,
                                       const UsualOptimizer& usual) {
  TALLY_TRY(OptimizerSpec spec, parse_optimizer(text));
  const bool names_rate =
      text.find(":rate=") != std::string::npos || text.find(",rate=") != std::string::npos;
  if (names_rate && rate && *rate != spec.rate)
    return invalid("{}: --rate {} is another learning rate; give one of them", text, *rate);
  TALLY_TRY(const OptimizerSpec usual_spec, parse_optimizer(usual.text));
  if (rate)
    spec.rate = *rate;
  else if (!names_rate && spec.kind == usual_spec.kind)
    spec.rate = usual.rate;
  TALLY_TRY(check(spec));
  return spec;
}

std::string with_rate(const OptimizerSpec& spec) {
  const std::string text = to_string(spec);
  const std::string_view name = optimizer_name(text);
  const std::string settings = text.substr(std::min(name.size() + 1, text.size()));
  if (settings.starts_with("rate=")) return text;
  return fmt::format("{}:rate={}{}{}", name, spec.rate, settings.empty() ? "" : ",", settings);
}

Result<RecordChoice> parse_record_choice(std::string_view text) {
  RecordChoice choice;
  std::size_t end = std::min(text.find(','), text.size());
  choice.file = text.substr(0, end);
  if (choice.file.empty()) return invalid("the file's name is missing");
  while (end < text.size()) {
    const std::size_t begin = end + 1;
    end = std::min(text.find(',', begin), text.size());
    const std::string_view setting = text.substr(begin, end - begin);
    const std::size_t equals = std::min(setting.find('='), setting.size());
    const std::string_view name = setting.substr(0, equals);
    const std::string_view value = setting.substr(std::min(equals + 1, setting.size()));
    if (name == "every") {
      TALLY_TRY(choice.every, setting_number(name, value, std::uint64_t{1} << 40));
    } else if (name == "steps") {
      TALLY_TRY(choice.steps, setting_number(name, value, kMostRecordedSteps));
    } else {
      return invalid("'{}' is neither every=N nor steps=N, and a file's name has no comma",
                     setting);
    }
  }
  return choice;
}

Result<std::vector<std::uint64_t>> recorded_steps(const RecordChoice& choice, std::uint64_t total) {
  std::vector<std::uint64_t> steps;
  if (choice.every > 0) {
    for (std::uint64_t i = 1; i <= choice.steps && i * choice.every <= total; ++i)
      steps.push_back(i * choice.every);
  } else {
    const std::uint64_t count = std::min(choice.steps, total);
    for (std::uint64_t i = 1; i <= count; ++i) steps.push_back(i * total / count);
  }
  if (steps.empty())
    return invalid("every={}: the training has only {} steps", choice.every, total);
  return steps;
}

Result<void> check_record_size(std::uint64_t steps, std::uint64_t parameters) {
  const std::uint64_t most = kMaxRecordBytes / sizeof(float);
  if (parameters == 0 || steps <= most / parameters) return {};
  return invalid("the gradients of {} steps of {} parameters are more than {}; steps={} would fit",
                 steps, parameters, format_bytes(kMaxRecordBytes), most / parameters);
}

}  // namespace tally::app
