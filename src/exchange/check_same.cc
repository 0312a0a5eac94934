#include "exchange/check_same.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

// check_same(): rank 0 broadcasts its lines. Each rank finds its first difference, and an
// all-gather collects these. The lowest rank with a difference broadcasts the error message.
namespace tally::exchange {
namespace {

constexpr std::int64_t kSame = std::numeric_limits<std::int64_t>::max();

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

// Copies the root's text to all ranks.
Result<void> broadcast_text(Communicator& world, Rank root, std::string& text, Deadline by) {
  std::int64_t bytes = static_cast<std::int64_t>(text.size());
  TALLY_TRY(world.broadcast(std::span(&bytes, 1), root, {.by = by}));
  text.resize(static_cast<std::size_t>(bytes));
  if (text.empty()) return {};
  return world.run({.operation = Operation::kBroadcast,
                    .input = text.data(),
                    .output = text.data(),
                    .count = text.size(),
                    .type = DataType::kUInt8,
                    .root = root,
                    .by = by});
}

std::int64_t first_difference(const std::vector<std::string_view>& mine,
                              const std::vector<std::string_view>& theirs) {
  const std::size_t common = std::min(mine.size(), theirs.size());
  for (std::size_t i = 0; i < common; ++i)
    if (mine[i] != theirs[i]) return static_cast<std::int64_t>(i);
  return mine.size() == theirs.size() ? kSame : static_cast<std::int64_t>(common);
}

std::string line_or_end(const std::vector<std::string_view>& lines, std::size_t index,
                        const std::string& item) {
  return index < lines.size() ? std::string(lines[index]) : "no further " + item;
}

}  // namespace

std::string to_string(const checkpoint::TensorInfo& tensor) {
  return fmt::format("{} {} [{}]", tensor.name, tally::to_string(tensor.type),
                     fmt::join(tensor.shape, ", "));
}

std::string to_string(const ParameterInfo& parameter) {
  const std::string group = parameter.group == 0 ? "" : fmt::format(" (group {})", parameter.group);
  return to_string(checkpoint::TensorInfo{parameter.name, parameter.type, parameter.shape}) + group;
}

Result<void> check_same(Communicator& world, const Sameness& sameness, Deadline by) {
  const std::string own_text = joined(sameness.lines);
  std::string first_text = own_text;
  TALLY_TRY(broadcast_text(world, 0, first_text, by));
  const auto own = lines_of(own_text);
  const auto first = lines_of(first_text);
  const std::int64_t mine = first_difference(own, first);
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  TALLY_TRY(world.allgather(std::span<const std::int64_t>(&mine, 1), std::span(all), {.by = by}));
  const auto other =
      std::find_if(all.begin(), all.end(), [](std::int64_t index) { return index != kSame; });
  if (other == all.end()) return {};
  const auto rank = static_cast<Rank>(other - all.begin());
  const auto index = static_cast<std::size_t>(*other);
  std::string message =
      fmt::format("the {} differ: {} {} of rank {} is {}, of rank 0 {}", sameness.what,
                  sameness.item, index, world.rank(), line_or_end(own, index, sameness.item),
                  line_or_end(first, index, sameness.item));
  TALLY_TRY(broadcast_text(world, rank, message, by));
  return Error{.code = ErrorCode::kMismatch, .peer = rank, .message = std::move(message)};
}

}  // namespace tally::exchange
