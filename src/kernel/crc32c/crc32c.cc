#include "kernel/crc32c/crc32c.h"

#include <array>

#include "kernel/crc32c/crc32c_level.h"

namespace tally::kernel {
namespace {

constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc % 2 == 1 ? kCastagnoli : 0U);
    table[byte] = crc;
  }
  return table;
}();

// A checksum is a polynomial over GF(2) modulo Castagnoli's, its highest bit being the coefficient
// of x^0.
constexpr std::uint32_t kOne = 0x80000000U;
constexpr std::uint32_t kXToThe8 = kOne >> 8;

std::uint32_t times_x(std::uint32_t a) { return (a >> 1) ^ (a % 2 == 1 ? kCastagnoli : 0U); }

std::uint32_t multiply_mod(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

}  // namespace

bool crc32c_is_accelerated() {
#if defined(__x86_64__)
  static const bool accelerated =
      __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
  return accelerated;
#else
  return false;
#endif
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool wide = crc32c_is_accelerated() && __builtin_cpu_supports("vpclmulqdq") &&
                           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  if (wide) return crc32c_avx512(bytes.data(), bytes.size(), crc);
  if (crc32c_is_accelerated()) return crc32c_sse42(bytes.data(), bytes.size(), crc);
#endif
  return crc32c_reference(bytes, crc);
}

std::uint32_t crc32c_reference(std::span<const std::byte> bytes, std::uint32_t crc) {
  crc = ~crc;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 0xFFU];
  }
  return ~crc;
}

// Each byte of the second part multiplies `first` by x^8; the power is computed by squaring.
std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second,
                             std::uint64_t second_bytes) {
  std::uint32_t power = kOne;
  for (std::uint32_t square = kXToThe8; second_bytes != 0; second_bytes >>= 1) {
    if (second_bytes % 2 == 1) power = multiply_mod(power, square);
    square = multiply_mod(square, square);
  }
  return multiply_mod(power, first) ^ second;
}

}  // namespace tally::kernel
