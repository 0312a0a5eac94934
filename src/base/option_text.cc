#include "base/option_text.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace tally {
namespace {

Result<OptionText::Option> parse_option(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    return invalid("'{}' is not of the form key=value", text);
  }
  return OptionText::Option{.key = text.substr(0, equals), .value = text.substr(equals + 1)};
}

}  // namespace

Result<OptionText> parse_option_text(std::string_view text) {
  OptionText result;
  const std::size_t colon = text.find(':');
  result.name = text.substr(0, colon);
  if (result.name.empty()) return invalid("'{}' does not begin with a name", text);
  if (colon == std::string_view::npos) return result;

  std::string_view rest = text.substr(colon + 1);
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    TALLY_TRY(const OptionText::Option option, parse_option(rest.substr(0, comma)));
    const bool twice = std::any_of(result.options.begin(), result.options.end(),
                                   [&](const auto& other) { return other.key == option.key; });
    if (twice) return invalid("'{}' is given twice in '{}'", option.key, text);
    result.options.push_back(option);
    if (more) rest.remove_prefix(comma + 1);
  }
  return result;
}

Result<double> parse_number(std::string_view text) {
  const auto number = parse_as<double>(text);
  if (!number || !std::isfinite(*number)) return invalid("'{}' is not a number", text);
  return *number;
}

Result<std::uint64_t> parse_count(std::string_view text) {
  constexpr double kMost = 0x1p53;  // up to here doubles are exact
  const auto number = parse_number(text);
  if (!number || !(*number >= 0) || *number > kMost || *number != std::floor(*number)) {
    return invalid("'{}' is not a whole number from 0", text);
  }
  return static_cast<std::uint64_t>(*number);
}

}  // namespace tally
