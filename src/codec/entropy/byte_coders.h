#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tally/error.h"

// Entropy coders of bytes. Each X_encode() returns the bytes used, or 0 if they do not fit into
// `out` or fit too closely: some 20 bytes more than are used are enough. `in` is not empty and has
// fewer than 2^32 bytes. Each X_decode() returns kCorrupt, with `out` undefined, if `in` is not
// what X_encode() made of out.size() bytes. All are pure; threads: safe.
namespace tally::codec {

using ByteCounts = std::array<std::uint32_t, 256>;

// How often each byte occurs among fewer than 2^32 bytes.
ByteCounts count_bytes(std::span<const std::byte> bytes);

// Asymmetric numeral systems (Duda 2013), range variant: a byte costs about log2(4096 / its share
// of 4096) bits, fractions of bits included. kRansStreams states take turns, so that a processor
// works on all of them at once.
//
//   32 bytes: bitmap of the bytes that occur
//   for each byte that occurs its share less 1, in 7-bit groups, lowest first
//   unless only one byte occurs: the states (u32 each), then 16-bit words in the order in which the
//   decoder needs them
inline constexpr std::size_t kRansStreams = 8;
inline constexpr std::uint32_t kRansTotal = 4096;
std::size_t rans_encode(std::span<const std::byte> in, std::span<std::byte> out);
Result<void> rans_decode(std::span<const std::byte> in, std::span<std::byte> out);

// Shares in proportion to counts, at least 1 for a byte that occurs; their sum is kRansTotal. At
// least one count is not 0.
using RansShares = std::array<std::uint16_t, 256>;
RansShares rans_shares(const ByteCounts& counts);

// The best canonical Huffman code with at most kHuffmanBits bits per byte. The bytes are cut into
// kHuffmanStreams equal streams (the last may be shorter), so that a processor works on all of them
// at once.
//
//   32 bytes: bitmap of the bytes that occur
//   for each byte that occurs the length of its code, 4 bits each, lowest first
//   unless only one byte occurs: the size of each stream but the last (u32), then the streams,
//   whose bits begin at the low end of each byte
inline constexpr unsigned kHuffmanBits = 11;
inline constexpr std::size_t kHuffmanStreams = 4;
std::size_t huffman_encode(std::span<const std::byte> in, std::span<std::byte> out);
Result<void> huffman_decode(std::span<const std::byte> in, std::span<std::byte> out);

// The lengths of the best code with at most kHuffmanBits bits; 0 for a byte that does not occur. At
// least two bytes occur.
using CodeLengths = std::array<std::uint8_t, 256>;
CodeLengths huffman_lengths(const ByteCounts& counts);

// A frame of the zstd library at its fastest ordinary level. Other versions of the library may
// write other bytes; every version reads them.
std::size_t zstd_encode(std::span<const std::byte> in, std::span<std::byte> out);
Result<void> zstd_decode(std::span<const std::byte> in, std::span<std::byte> out);

// The bitmap of the bytes that occur.
inline constexpr std::size_t kPresenceBytes = 32;
// The bytes with a count, rising.
std::vector<std::uint8_t> present(const ByteCounts& counts);
void write_presence(std::span<const std::uint8_t> symbols,
                    std::span<std::byte, kPresenceBytes> out);
std::vector<std::uint8_t> read_presence(std::span<const std::byte, kPresenceBytes> bytes);

// kCorrupt: "entropy-coded bytes: PROBLEM".
Error corrupt_code(const char* problem);

}  // namespace tally::codec
