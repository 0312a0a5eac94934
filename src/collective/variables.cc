#include "collective/variables.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace tally::collective {

Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalid, .message = std::move(message)};
}

Result<int> number(const Variables& variable, const char* name, int lowest, int highest,
                   int fallback) {
  const char* const text = variable(name);
  if (text == nullptr) return fallback;
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, problem] = std::from_chars(text, end, value);
  if (problem != std::errc() || stop != end || value < lowest || value > highest)
    return invalid(fmt::format("{}={} is not a number from {} to {}", name, text, lowest, highest));
  return value;
}

std::string text_of(const Variables& variable, const char* name) {
  const char* const text = variable(name);
  return text == nullptr ? "" : text;
}

}  // namespace tally::collective
