#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/entropy/byte_counts.h"
#include "tally/error.h"

namespace tally::codec {

// Asymmetric numeral systems (Duda 2013) over bytes, in the range variant: each byte costs about
// log2(4096 / its share of 4096) bits, fractions of bits included. Shares are counted from the
// bytes and travel in front. kRansStreams states take turns, so that a processor works on all of
// them at once.
//
//   presence of bytes: 32; then for each that is present its share less 1, in 7-bit groups, low
//   first unless only one byte is present: the states (u32 each), then 16-bit words in the order in
//   which the decoder needs them
//
// Pure; threads: safe.

inline constexpr std::size_t kRansStreams = 8;
inline constexpr std::uint32_t kRansTotal = 4096;

// The bytes used; 0 if they do not fit, or only just: some 20 bytes more than are used are enough.
// `in` is not empty, and has fewer than 2^32 bytes.
std::size_t rans_encode(std::span<const std::byte> in, std::span<std::byte> out);
// kCorrupt, with `out` undefined, if `in` is not what rans_encode() made of out.size() bytes.
Result<void> rans_decode(std::span<const std::byte> in, std::span<std::byte> out);

// Shares in proportion to counts, at least 1 for whatever occurs; they sum up to kRansTotal. Not
// all counts are 0.
using RansShares = std::array<std::uint16_t, 256>;
RansShares rans_shares(const ByteCounts& counts);

}  // namespace tally::codec
