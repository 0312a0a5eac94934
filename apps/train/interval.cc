#include "apps/train/interval.h"

#include <charconv>

#include <fmt/format.h>

namespace tally::app {
namespace {

Error not_an_interval(std::string_view text) {
  return Error{
      .code = ErrorCode::kInvalid,
      .message = fmt::format(
          "'{}' is not a number of steps or epochs such as 500, \"2 epochs\" or never", text)};
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

std::string to_string(const Interval& interval) {
  const std::uint64_t count = interval.steps > 0 ? interval.steps : interval.epochs;
  if (count == 0) return "never";
  return fmt::format("{} {}{}", count, interval.steps > 0 ? "step" : "epoch",
                     count == 1 ? "" : "s");
}

bool is_due(const Interval& interval, const Moment& before, const Moment& after) {
  if (interval.steps > 0) return before.steps / interval.steps != after.steps / interval.steps;
  if (interval.epochs > 0) return before.epochs / interval.epochs != after.epochs / interval.epochs;
  return false;
}

}  // namespace tally::app
