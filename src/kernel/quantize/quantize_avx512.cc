#include "kernel/quantize/quantize_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 64;

#include "kernel/reduce/reduce_packs.inc"

#include "kernel/reduce/reduce_f16c.inc"

// By one instruction each, as in reduce_avx512.cc.
template <>
[[maybe_unused]] Pack<std::uint32_t, 16> to_32_bits<16>(Pack<std::uint16_t, 16> narrow) {
  using Wide = Pack<std::uint32_t, 16>;
  const auto from = __builtin_bit_cast(__m256i, narrow);
  return __builtin_bit_cast(Wide, _mm512_maskz_cvtepu16_epi32(0xFFFF, from));
}
template <>
[[maybe_unused]] Pack<float, 16> widen_float16<16>(Pack<std::uint16_t, 16> half) {
  using Values = Pack<float, 16>;
  const auto from = __builtin_bit_cast(__m256i, half);
  return __builtin_bit_cast(Values, _mm512_maskz_cvtph_ps(0xFFFF, from));
}

#include "kernel/quantize/quantize_steps.inc"

#include "kernel/quantize/quantize_casts.inc"

inline __m128i load_sixteen(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

inline void store_bytes(std::byte* to, const StepOf<Bits>& values) {
  const auto bits = __builtin_bit_cast(__m512i, values.part[0]);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(0xFFFF, bits));
}

inline StepOf<Ints> load_signed_bytes(const std::byte* from) {
  const __m512i values = _mm512_maskz_cvtepi8_epi32(0xFFFF, load_sixteen(from));
  return {{__builtin_bit_cast(Ints, values)}};
}

inline StepOf<Halves> load_bytes_as_16_bits(const std::byte* from) {
  return {{__builtin_bit_cast(Halves, _mm256_cvtepu8_epi16(load_sixteen(from)))}};
}

inline std::uint16_t sign_bits(const StepOf<Bits>& values) {
  return _mm512_movepi32_mask(__builtin_bit_cast(__m512i, values.part[0]));
}

inline Ints larger(Ints a, Ints b) {
  const auto first = __builtin_bit_cast(__m512i, a);
  const auto second = __builtin_bit_cast(__m512i, b);
  return __builtin_bit_cast(Ints, _mm512_maskz_max_epi32(0xFFFF, first, second));
}

// Halves against halves.
inline std::int32_t largest_of(Ints values) {
  const auto all = __builtin_bit_cast(__m512i, values);
  const __m256i eight = _mm256_max_epi32(_mm512_maskz_extracti64x4_epi64(0xF, all, 0),
                                         _mm512_maskz_extracti64x4_epi64(0xF, all, 1));
  const __m128i four =
      _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

#include "kernel/quantize/quantize_blocks.inc"

#include "kernel/quantize/quantize_natural.inc"

#include "kernel/quantize/quantize_formats.inc"

}  // namespace

constinit const QuantizeKernels kAvx512Quantize = kQuantize;

}  // namespace tally::kernel
#endif
