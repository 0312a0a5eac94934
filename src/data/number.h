#pragma once
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace tally::data {

// Parses the whole text as a number in the range of a float; nullopt otherwise.
inline std::optional<double> number_in(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  // Also false for NaN.
  const bool fits = std::abs(value) <= std::numeric_limits<float>::max();
  return fits ? std::optional(value) : std::nullopt;
}

// Quotes an invalid text for a message: shortened, and without control characters.
inline std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string result = "'";
  for (const char c : text.substr(0, kMost)) result += c >= 0 && c < ' ' ? '?' : c;
  return result + (text.size() > kMost ? "...'" : "'");
}

}  // namespace tally::data
