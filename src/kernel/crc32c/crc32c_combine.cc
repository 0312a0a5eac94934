#include "kernel/crc32c/crc32c.h"
#include "kernel/crc32c/crc32c_level.h"

namespace tally::kernel {
namespace {

// A checksum is a polynomial over GF(2) modulo Castagnoli's, its highest bit being the coefficient
// of x^0.
constexpr std::uint32_t kOne = 0x80000000U;
constexpr std::uint32_t kXToThe8 = kOne >> 8;

std::uint32_t times_x(std::uint32_t a) { return (a >> 1) ^ (a % 2 == 1 ? kCastagnoli : 0U); }

std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

}  // namespace

// What follows `first` moves it up by x^8 for each byte; that power by squaring.
std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second,
                             std::uint64_t second_bytes) {
  std::uint32_t power = kOne;
  for (std::uint32_t square = kXToThe8; second_bytes != 0; second_bytes >>= 1) {
    if (second_bytes % 2 == 1) power = multiply(power, square);
    square = multiply(square, square);
  }
  return multiply(power, first) ^ second;
}

}  // namespace tally::kernel
