#include "apps/train/report_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace tally::app {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr const char* kNarrowSpace = "\xE2\x80\xAF";  // U+202F, does not break

// Returns the length in bytes of the well-formed UTF-8 sequence at the beginning of `text` (RFC
// 3629); 0 if there is none.
std::size_t sequence_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xC2 && first <= 0xDF   ? 2
                            : first >= 0xE0 && first <= 0xEF ? 3
                            : first >= 0xF0 && first <= 0xF4 ? 4
                                                             : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Overlong forms, surrogates, and code points beyond U+10FFFF.
  const unsigned char second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
    return 0;
  return bytes;
}

const char* reference_of(char c) {
  constexpr std::array kReferences = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  const std::size_t at = std::string_view("&<>\"'").find(c);
  return at == std::string_view::npos ? nullptr : kReferences[at];
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = sequence_bytes(text);
    const char* const reference = reference_of(text.front());
    if (bytes == 0 || is_control(text.front())) {
      out += kReplacement;
    } else if (reference != nullptr) {
      out += reference;
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(1, bytes));
  }
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "infinity" : "-infinity";
  const bool large = std::abs(value) >= 9999.5 && std::abs(value) < 1e9;
  if (large) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value == 0 ? 0.0 : value);  // no "-0"
}

std::string count_text(double count) {
  if (!std::isfinite(count)) return number_text(count);
  if (std::abs(count) >= 1e7 - 0.5) {
    const bool giga = std::abs(count) >= 1e9;
    return fmt::format("{:.4g}{}{}", count / (giga ? 1e9 : 1e6), kNarrowSpace, giga ? "G" : "M");
  }
  if (std::abs(count) < 100 && count != std::floor(count)) return number_text(count);
  const std::string digits = fmt::format("{}", std::llround(std::abs(count)));
  std::string out = count < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += kNarrowSpace;
    out += digits[i];
  }
  return out;
}

std::string time_text(Duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const std::int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string percent_text(double share) {
  if (!std::isfinite(share)) return number_text(share);
  return fmt::format("{:.2f} %", share * 100);
}

}  // namespace tally::app
