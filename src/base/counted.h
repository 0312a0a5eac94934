#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tally {

// A count with its noun: "1 step", "2 steps".
inline std::string counted(std::uint64_t count, std::string_view noun) {
  std::string text = std::to_string(count) + " ";
  text += noun;
  return count == 1 ? text : text + "s";
}

}  // namespace tally
