#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tally/error.h"

// What the coders of bytes have in common: how often each byte occurs, and a list of those that do.
namespace tally::codec {

using ByteCounts = std::array<std::uint32_t, 256>;

// Fewer than 2^32 bytes.
ByteCounts count_bytes(std::span<const std::byte> bytes);

// Which bytes occur, as a bitmap on the wire.
inline constexpr std::size_t kPresenceBytes = 32;
// Those with a count, in order.
std::vector<std::uint8_t> present(const ByteCounts& counts);
void write_presence(std::span<const std::uint8_t> symbols,
                    std::span<std::byte, kPresenceBytes> out);
std::vector<std::uint8_t> read_presence(std::span<const std::byte, kPresenceBytes> bytes);

// "a coded part that ...": kCorrupt.
Error corrupt_code(const char* what);

}  // namespace tally::codec
