#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <span>

#include "tally/error.h"

namespace tally::codec {

// kCorrupt unless there are `expected` bytes, which is what `count` values take.
inline Result<void> check_size(std::span<const std::byte> bytes, std::size_t expected,
                               std::size_t count) {
  if (bytes.size() == expected) return {};
  return Error{.code = ErrorCode::kCorrupt,
               .message = fmt::format("{} bytes for {} values, which take {}", bytes.size(), count,
                                      expected)};
}

}  // namespace tally::codec
