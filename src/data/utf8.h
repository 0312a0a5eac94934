#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tally::data {

// A character of a UTF-8 text; `bytes` is 0 where there is none: not UTF-8, cut off, too long a
// form, or a surrogate.
struct Character {
  std::uint32_t code = 0;
  int bytes = 0;
};

// The one that begins at `offset`, which is inside the text.
Character character_at(std::span<const std::byte> text, std::size_t offset);

// Back to bytes.
std::string utf8_of(std::uint32_t code);

}  // namespace tally::data
