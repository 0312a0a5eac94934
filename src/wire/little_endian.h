#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace tally::wire {

// Little-endian integers at any offset. At least sizeof(T) bytes follow `at`.
template <typename T>
void store(std::span<std::byte> bytes, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes[at + i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
}

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  }
  return static_cast<T>(value);
}

}  // namespace tally::wire
