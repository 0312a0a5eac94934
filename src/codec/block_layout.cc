#include "codec/block_layout.h"

#include <fmt/format.h>

#include "base/errors.h"

namespace tally::codec {

Result<void> check_size(std::string_view codec, std::span<const std::byte> bytes,
                        std::size_t expected, std::size_t count) {
  if (bytes.size() == expected) return {};
  return corrupt(
      fmt::format("{}: {} bytes for {} values, expected {}", codec, bytes.size(), count, expected));
}

Error wrong_scale(std::string_view codec, std::size_t block, float scale) {
  return corrupt(fmt::format("{}: block {} has scale {}", codec, block, scale));
}

Error wrong_codes(std::string_view codec, std::size_t block) {
  return corrupt(fmt::format("{}: block {} has an invalid code", codec, block));
}

Error wrong_ends(std::string_view codec) {
  return corrupt(fmt::format("{}: bits are set behind the last value of a block", codec));
}

}  // namespace tally::codec
