#include "data/utf8.h"

namespace tally::data {

Character character_at(std::span<const std::byte> text, std::size_t offset) {
  const auto byte_at = [&text](std::size_t at) { return std::to_integer<std::uint32_t>(text[at]); };
  const std::uint32_t first = byte_at(offset);
  if (first < 0x80) return {first, 1};
  // The first byte gives the length. A code below `least` has a shorter form, so it is invalid
  // here.
  const int bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  const std::uint32_t least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
  if (first < 0xC0 || first >= 0xF8) return {};
  if (text.size() - offset < static_cast<std::size_t>(bytes)) return {};
  std::uint32_t code = first & (0x7FU >> bytes);
  for (int i = 1; i < bytes; ++i) {
    const std::uint32_t next = byte_at(offset + static_cast<std::size_t>(i));
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3F);
  }
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < least || code > 0x10FFFF || surrogate) return {};
  return {code, bytes};
}

std::string utf8_of(std::uint32_t code) {
  const auto byte = [](std::uint32_t value) {
    return static_cast<char>(static_cast<unsigned char>(value));
  };
  if (code < 0x80) return {byte(code)};
  const auto more = [&](int shift) { return byte(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x800) return {byte(0xC0 | code >> 6), more(0)};
  if (code < 0x10000) return {byte(0xE0 | code >> 12), more(6), more(0)};
  return {byte(0xF0 | code >> 18), more(12), more(6), more(0)};
}

}  // namespace tally::data
