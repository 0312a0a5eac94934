#include "collective/slurm_lists.h"

#include <fmt/format.h>

#include "base/errors.h"
#include "base/option_text.h"
#include "collective/variables.h"
#include "group/bodies.h"

namespace tally::collective {
namespace {

constexpr std::size_t kMaxHosts = group::kMaxRanks;
// Longer than any number of a host or of its tasks.
constexpr std::size_t kMaxDigits = 9;

Result<int> digits(std::string_view text) {
  const auto value = parse_as<int>(text);
  if (text.size() > kMaxDigits || !value || *value < 0)
    return invalid("\"{}\" is not a number", text);
  return *value;
}

// Splits at commas that stand outside of brackets.
std::vector<std::string_view> parts_of(std::string_view list) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      parts.push_back(list.substr(start, i - start));
      start = i + 1;
    } else if (list[i] == '[') {
      ++depth;
    } else if (list[i] == ']') {
      --depth;
    }
  }
  return parts;
}

// "01-03" or "7": the numbers as they are written, leading zeros and all.
Result<std::vector<std::string>> numbers_of(std::string_view range) {
  const std::size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  TALLY_TRY(const int first, digits(low));
  TALLY_TRY(const int last, digits(high));
  if (last < first || static_cast<std::size_t>(last - first) >= kMaxHosts)
    return invalid("\"{}\" is not a range of hosts", range);
  std::vector<std::string> numbers;
  for (int number = first; number <= last; ++number)
    numbers.push_back(fmt::format("{:0{}}", number, low.size()));
  return numbers;
}

// One part: text and brackets in turn. Each bracket multiplies the names found so far.
Result<std::vector<std::string>> names_of(std::string_view part) {
  std::vector<std::string> names{""};
  while (!part.empty()) {
    const std::size_t open = part.find_first_of("[]");
    for (std::string& name : names) name += part.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = part.find(']', open);
    if (part[open] == ']' || close == std::string_view::npos)
      return invalid("a bracket has no partner");
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string_view range : parts_of(part.substr(open + 1, close - open - 1))) {
        TALLY_TRY(const std::vector<std::string> numbers, numbers_of(range));
        if (longer.size() + numbers.size() > kMaxHosts) return invalid("too many hosts");
        for (const std::string& number : numbers) longer.push_back(name + number);
      }
    }
    names = std::move(longer);
    part.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  for (const std::string_view part : parts_of(list)) {
    auto names = names_of(part);
    if (!names.has_value()) return invalid("list of hosts {}: {}", list, names.error().message);
    if (part.empty()) return invalid("list of hosts {}: an empty name", list);
    if (hosts.size() + names->size() > kMaxHosts)
      return invalid("list of hosts {}: too many hosts", list);
    hosts.insert(hosts.end(), names->begin(), names->end());
  }
  return hosts;
}

Result<int> tasks_on_node(std::string_view list, int node_index) {
  int nodes = 0;
  for (const std::string_view part : parts_of(list)) {
    const std::size_t times = part.find("(x");
    int repeat = 1;
    if (times != std::string_view::npos) {
      if (part.back() != ')') return invalid("list of tasks {}: no bracket", list);
      TALLY_TRY(repeat, digits(part.substr(times + 2, part.size() - times - 3)));
    }
    TALLY_TRY(const int tasks, digits(part.substr(0, times)));
    if (node_index - nodes < repeat) return tasks;
    nodes += repeat;
  }
  return invalid("list of tasks {} has no node {}", list, node_index);
}

}  // namespace tally::collective
