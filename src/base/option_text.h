#pragma once
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally {

// A choice with settings: "cosine" or "cosine:min=0.01,warmup=100".
struct OptionText {
  struct Option {
    std::string_view key, value;
  };
  std::string_view name;
  std::vector<Option> options;  // in the order of the text; no key twice
};

// The result refers to `text`. kInvalid, with the position, if the text has another form.
Result<OptionText> parse_option_text(std::string_view text);

// The whole of `text` as a number, as by std::from_chars(), which takes no space and no plus sign;
// none for any other text. `format` is the base of an integer.
template <typename T, typename... Format>
std::optional<T> parse_as(std::string_view text, Format... format) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, value, format...);
  return status == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

// A finite decimal number such as "0.1", "-3" or "1e-8"; a whole number from 0, such as "1e4".
// kInvalid, with the text, otherwise.
Result<double> parse_number(std::string_view text);
Result<std::uint64_t> parse_count(std::string_view text);

}  // namespace tally
