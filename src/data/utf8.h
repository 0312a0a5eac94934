#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tally::data {

// A character of a UTF-8 text. `bytes` is 0 for invalid input: not UTF-8, truncated, an overlong
// form, or a surrogate.
struct Character {
  std::uint32_t code = 0;
  int bytes = 0;
};

// Decodes the character at `offset`, which must be inside the text.
Character character_at(std::span<const std::byte> text, std::size_t offset);

// Encodes a code point as UTF-8.
std::string utf8_of(std::uint32_t code);

}  // namespace tally::data
