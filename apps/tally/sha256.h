#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace tally::app {

// Returns 64 hexadecimal digits.
std::string sha256_of(std::span<const std::byte> bytes);

}  // namespace tally::app
