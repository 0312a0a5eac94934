#include "codec/quantize/level_codes.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

// All loops take eight levels at a time, one in each byte of a word.
namespace tally::codec {
namespace {

constexpr std::uint64_t every_byte(std::uint64_t byte) { return byte * 0x0101010101010101U; }

// Moves the lowest kBits of each byte of `word` side by side into the lowest 8 * kBits.
template <int kBits>
std::uint64_t gathered(std::uint64_t word);
template <>
std::uint64_t gathered<2>(std::uint64_t word) {
  word &= every_byte(0x03);
  word = (word | word >> 6) & 0x000F000F000F000FU;
  word = (word | word >> 12) & 0x000000FF000000FFU;
  return (word | word >> 24) & 0xFFFFU;
}
template <>
std::uint64_t gathered<4>(std::uint64_t word) {
  word &= every_byte(0x0F);
  word = (word | word >> 4) & 0x00FF00FF00FF00FFU;
  word = (word | word >> 8) & 0x0000FFFF0000FFFFU;
  return (word | word >> 16) & 0xFFFFFFFFU;
}
template <>
std::uint64_t gathered<8>(std::uint64_t word) {
  return word;
}

// The inverse of gathered().
template <int kBits>
std::uint64_t scattered(std::uint64_t word);
template <>
std::uint64_t scattered<2>(std::uint64_t word) {
  word = (word | word << 24) & 0x000000FF000000FFU;
  word = (word | word << 12) & 0x000F000F000F000FU;
  return (word | word << 6) & every_byte(0x03);
}
template <>
std::uint64_t scattered<4>(std::uint64_t word) {
  word = (word | word << 16) & 0x0000FFFF0000FFFFU;
  word = (word | word << 8) & 0x00FF00FF00FF00FFU;
  return (word | word << 4) & every_byte(0x0F);
}
template <>
std::uint64_t scattered<8>(std::uint64_t word) {
  return word;
}

template <int kBits>
void pack(std::span<const std::int8_t> levels, std::byte* codes) {
  for (; !levels.empty(); codes += kBits) {
    const std::size_t some = levels.size() < 8 ? levels.size() : 8;
    std::uint64_t word = 0;
    if (some == 8) {
      std::memcpy(&word, levels.data(), 8);
      word = gathered<kBits>(word);
      std::memcpy(codes, &word, kBits);
    } else {
      std::memcpy(&word, levels.data(), some);
      word = gathered<kBits>(word);
      std::memcpy(codes, &word, (some * kBits + 7) / 8);
    }
    levels = levels.subspan(some);
  }
}

// The levels of eight codes. Sets the highest bit of a byte of `unused` where a code is invalid.
template <int kBits>
std::uint64_t levels_of(std::uint64_t codes, std::uint64_t& unused) {
  // With the sign bit flipped the codes are in order, and the invalid code is zero.
  constexpr std::uint64_t kSign = std::uint64_t{1} << (kBits - 1);
  const std::uint64_t moved = scattered<kBits>(codes) ^ every_byte(kSign);
  unused |= (moved - every_byte(0x01)) & ~moved & every_byte(0x80);
  // Subtracts the offset again, without a borrow from one byte to the next.
  if constexpr (kBits == 8) return moved ^ every_byte(0x80);
  return ((moved | every_byte(0x80)) - every_byte(kSign)) ^ every_byte(0x80);
}

template <int kBits>
bool unpack(const std::byte* codes, std::span<std::int8_t> levels) {
  std::uint64_t unused = 0;
  for (; levels.size() >= 8; levels = levels.subspan(8), codes += kBits) {
    std::uint64_t word = 0;
    std::memcpy(&word, codes, kBits);
    word = levels_of<kBits>(word, unused);
    std::memcpy(levels.data(), &word, 8);
  }
  if (!levels.empty()) {
    std::uint64_t word = 0;
    std::memcpy(&word, codes, (levels.size() * kBits + 7) / 8);
    word = levels_of<kBits>(word, unused);
    std::memcpy(levels.data(), &word, levels.size());
  }
  return unused == 0;
}

}  // namespace

void pack_levels(std::span<const std::int8_t> levels, int bits, std::byte* codes) {
  TALLY_CHECK(bits == 2 || bits == 4 || bits == 8);
  if (bits == 2) return pack<2>(levels, codes);
  if (bits == 4) return pack<4>(levels, codes);
  pack<8>(levels, codes);
}

bool unpack_levels(const std::byte* codes, int bits, std::span<std::int8_t> levels) {
  TALLY_CHECK(bits == 2 || bits == 4 || bits == 8);
  if (bits == 2) return unpack<2>(codes, levels);
  if (bits == 4) return unpack<4>(codes, levels);
  return unpack<8>(codes, levels);
}

// Loops go plane by plane, so that the compiler vectorizes them.
void pack_trits(const std::int8_t* const* planes, std::size_t count, std::byte* codes) {
  std::fill_n(codes, count, std::byte{0});
  for (std::size_t p = kTritPlanes; p-- > 0;) {
    const std::int8_t* const plane = planes[p];
    for (std::size_t i = 0; i < count; ++i) {
      const auto level = static_cast<std::uint8_t>(plane[i]);
      const unsigned digit = (level & 1U) + (level >> 7);
      codes[i] = static_cast<std::byte>(3 * static_cast<unsigned>(codes[i]) + digit);
    }
  }
}

bool unpack_trits(const std::byte* codes, std::size_t count, std::int8_t* const* planes) {
  // The quotients are kept in the last plane, which is written last.
  std::int8_t* const rest = planes[kTritPlanes - 1];
  unsigned most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    most = std::max(most, static_cast<unsigned>(codes[i]));
    rest[i] = static_cast<std::int8_t>(codes[i]);
  }
  for (std::size_t p = 0; p < kTritPlanes; ++p) {
    std::int8_t* const plane = planes[p];
    for (std::size_t i = 0; i < count; ++i) {
      const auto code = static_cast<std::uint8_t>(rest[i]);
      // Division by three, exact for all bytes.
      const auto third = static_cast<std::uint16_t>(static_cast<std::uint16_t>(code * 171U) >> 9);
      const unsigned digit = code - 3U * third;
      rest[i] = static_cast<std::int8_t>(third);
      plane[i] = static_cast<std::int8_t>((digit & 1U) - (digit >> 1));
    }
  }
  return most < 3 * 3 * 3 * 3 * 3;
}

}  // namespace tally::codec
