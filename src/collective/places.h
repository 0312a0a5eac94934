#pragma once
#include "collective/board.h"

namespace tally::collective {

// How the others can reach memory of this rank.
inline Place place_of(const net::Segment& segment, const void* data, std::size_t bytes) {
  if (data == nullptr || bytes == 0) return {};
  const std::uint64_t name = segment.name_of(data, bytes);
  return name != 0 ? Place{Place::Kind::kVisible, name} : Place{Place::Kind::kStaged, 0};
}

}  // namespace tally::collective
