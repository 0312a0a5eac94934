#pragma once
#include <cstddef>
#include <cstdint>

namespace tally::kernel {

// The reflected polynomial, as in the crc32 instruction.
inline constexpr std::uint32_t kCastagnoli = 0x82F63B78U;

// x^exponent modulo the polynomial, reflected: bit 31 is x^0.
constexpr std::uint32_t power_of_x(int exponent) {
  std::uint32_t power = 0x80000000U;
  for (int i = 0; i < exponent; ++i) power = (power >> 1) ^ (power % 2 == 1 ? kCastagnoli : 0U);
  return power;
}

#if defined(__x86_64__)
// crc32c() for a processor with SSE4.2 and PCLMULQDQ; compiled for these, so callable only there.
std::uint32_t crc32c_sse42(const std::byte* bytes, std::size_t count, std::uint32_t crc);
// The same for a processor that also has AVX-512 and VPCLMULQDQ: about twice as fast on long
// inputs.
std::uint32_t crc32c_avx512(const std::byte* bytes, std::size_t count, std::uint32_t crc);
#endif

}  // namespace tally::kernel
