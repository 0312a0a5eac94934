#include "kernel/crc32c/crc32c_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

// Long inputs by carry-less multiplication of 64 bytes at a time (V. Gopal et al., "Fast CRC
// Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009): a 128-bit piece
// that lies D bits before another adds to it as
//   low half * x^(D + 32)  +  high half * x^(D - 32)      modulo the polynomial, all reflected
// so that four accumulators run over the input and are then folded into one piece of 16 bytes with
// the same remainder, which the crc32 instruction finishes.
namespace tally::kernel {
namespace {

constexpr std::size_t kStrideBytes = 256;

// x^exponent, one place up as the multiplication wants it.
constexpr long long constant(int exponent) {
  const long long wide = power_of_x(exponent);
  return wide * 2;
}

template <int kDistanceBits>
__m512i fold(__m512i piece, __m512i onto) {
  constexpr long long kHigh = constant(kDistanceBits - 32);
  constexpr long long kLow = constant(kDistanceBits + 32);
  const __m512i constants = _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
  const __m512i low = _mm512_clmulepi64_epi128(piece, constants, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(piece, constants, 0x11);
  return _mm512_ternarylogic_epi64(low, high, onto, 0x96);  // the sum of the three
}

__m128i fold_lane(__m128i piece, __m128i onto) {
  constexpr long long kHigh = constant(128 - 32);
  constexpr long long kLow = constant(128 + 32);
  const __m128i constants = _mm_set_epi64x(kHigh, kLow);
  const __m128i low = _mm_clmulepi64_si128(piece, constants, 0x00);
  const __m128i high = _mm_clmulepi64_si128(piece, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

// The remainder of the four lanes, first to last.
std::uint32_t finish(__m512i piece) {
  __m128i lane = _mm512_extracti32x4_epi32(piece, 0);
  lane = fold_lane(lane, _mm512_extracti32x4_epi32(piece, 1));
  lane = fold_lane(lane, _mm512_extracti32x4_epi32(piece, 2));
  lane = fold_lane(lane, _mm512_extracti32x4_epi32(piece, 3));
  const std::uint64_t crc =
      _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_extract_epi64(lane, 0)));
  return static_cast<std::uint32_t>(
      _mm_crc32_u64(crc, static_cast<std::uint64_t>(_mm_extract_epi64(lane, 1))));
}

}  // namespace

std::uint32_t crc32c_avx512(const std::byte* bytes, std::size_t count, std::uint32_t crc) {
  if (count < 2 * kStrideBytes) return crc32c_sse42(bytes, count, crc);
  const std::size_t strides = count / kStrideBytes;
  __m512i sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = _mm512_loadu_si512(bytes + 64 * i);
  sums[0] =
      _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  for (std::size_t stride = 1; stride < strides; ++stride) {
    const std::byte* const next = bytes + stride * kStrideBytes;
    for (int i = 0; i < 4; ++i)
      sums[i] = fold<8 * kStrideBytes>(sums[i], _mm512_loadu_si512(next + 64 * i));
  }
  for (int i = 1; i < 4; ++i) sums[i] = fold<512>(sums[i - 1], sums[i]);
  const std::size_t done = strides * kStrideBytes;
  return crc32c_sse42(bytes + done, count - done, ~finish(sums[3]));
}

}  // namespace tally::kernel
#endif
