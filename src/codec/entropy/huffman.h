#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/entropy/byte_counts.h"
#include "tally/error.h"

namespace tally::codec {

// A canonical Huffman code of bytes, the best one with codes of at most kHuffmanBits bits. Lengths
// travel in front, codes follow from them. The bytes are cut into kHuffmanStreams equal parts (the
// last may be shorter), so that a processor works on all of them at once.
//
//   presence of bytes: 32; then for each that is present the length of its code, 4 bits each, low
//   first unless only one byte is present: bytes of each part but the last (u32), then the parts:
//   bits from the low end of each byte on
//
// Pure; threads: safe.

inline constexpr unsigned kHuffmanBits = 11;
inline constexpr std::size_t kHuffmanStreams = 4;

// As rans_encode() and rans_decode().
std::size_t huffman_encode(std::span<const std::byte> in, std::span<std::byte> out);
Result<void> huffman_decode(std::span<const std::byte> in, std::span<std::byte> out);

// Lengths with which codes are shortest, of those with kHuffmanBits bits at most; 0 for what does
// not occur. At least two bytes do.
using CodeLengths = std::array<std::uint8_t, 256>;
CodeLengths huffman_lengths(const ByteCounts& counts);

}  // namespace tally::codec
