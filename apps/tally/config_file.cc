#include "apps/tally/config_file.h"

#include <algorithm>
#include <string_view>

#include "base/errors.h"

namespace tally::app {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

// The value without its quotes and the comment behind it.
std::string_view config_value(std::string_view text) {
  text = trimmed(text);
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  const std::size_t close = quoted ? text.find(text.front(), 1) : std::string_view::npos;
  if (close != std::string_view::npos) return text.substr(1, close - 1);
  if (text.starts_with('#')) return "";
  return trimmed(text.substr(0, text.find(" #")));
}

}  // namespace

Result<std::vector<ConfigLine>> read_config(std::istream& input) {
  std::vector<ConfigLine> lines;
  std::string whole;
  for (int number = 1; std::getline(input, whole); ++number) {
    std::string_view text = trimmed(whole);
    if (text.empty() || text.front() == '#' || text.front() == ';') continue;
    const std::size_t equals = text.find('=');
    std::string_view name =
        equals == std::string_view::npos ? config_value(text) : trimmed(text.substr(0, equals));
    name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
    if (name.empty() || name.front() == '[')
      return invalid("{}: '{}' is not of the form name=value", number, text);
    const auto same = std::find_if(lines.begin(), lines.end(),
                                   [name](const ConfigLine& line) { return line.name == name; });
    if (same != lines.end())
      return invalid("{}: {} is given twice; see line {}", number, name, same->number);
    ConfigLine line{.number = number, .name = std::string(name), .value = {}};
    if (equals != std::string_view::npos) line.value = config_value(text.substr(equals + 1));
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tally::app
