#include "kernel/quantize/quantize_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 32;

#include "kernel/reduce/reduce_packs.inc"

#include "kernel/reduce/reduce_f16c.inc"

// By one instruction each, as in reduce_avx2.cc.
template <>
[[maybe_unused]] Pack<std::uint32_t, 8> to_32_bits<8>(Pack<std::uint16_t, 8> narrow) {
  using Wide = Pack<std::uint32_t, 8>;
  return __builtin_bit_cast(Wide, _mm256_cvtepu16_epi32(__builtin_bit_cast(__m128i, narrow)));
}
template <>
[[maybe_unused]] Pack<float, 8> widen_float16<8>(Pack<std::uint16_t, 8> half) {
  using Values = Pack<float, 8>;
  return __builtin_bit_cast(Values, _mm256_cvtph_ps(__builtin_bit_cast(__m128i, half)));
}

#include "kernel/quantize/quantize_steps.inc"

#include "kernel/quantize/quantize_casts.inc"

inline __m128i load_sixteen(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// Packing works on the halves of a register: [a0-3 b0-3 | a4-7 b4-7] must be put in order.
inline void store_bytes(std::byte* to, const StepOf<Bits>& values) {
  const __m256i low = _mm256_set1_epi32(0xFF);
  const __m256i a = _mm256_and_si256(__builtin_bit_cast(__m256i, values.part[0]), low);
  const __m256i b = _mm256_and_si256(__builtin_bit_cast(__m256i, values.part[1]), low);
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

inline StepOf<Ints> load_signed_bytes(const std::byte* from) {
  const __m128i bytes = load_sixteen(from);
  return {{__builtin_bit_cast(Ints, _mm256_cvtepi8_epi32(bytes)),
           __builtin_bit_cast(Ints, _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))}};
}

inline StepOf<Halves> load_bytes_as_16_bits(const std::byte* from) {
  const __m128i bytes = load_sixteen(from);
  return {{__builtin_bit_cast(Halves, _mm_cvtepu8_epi16(bytes)),
           __builtin_bit_cast(Halves, _mm_cvtepu8_epi16(_mm_srli_si128(bytes, 8)))}};
}

inline std::uint16_t sign_bits(const StepOf<Bits>& values) {
  const int low = _mm256_movemask_ps(__builtin_bit_cast(__m256, values.part[0]));
  const int high = _mm256_movemask_ps(__builtin_bit_cast(__m256, values.part[1]));
  return static_cast<std::uint16_t>(low | (high << 8));
}

inline Ints larger(Ints a, Ints b) {
  return __builtin_bit_cast(
      Ints, _mm256_max_epi32(__builtin_bit_cast(__m256i, a), __builtin_bit_cast(__m256i, b)));
}

// Halves against halves.
inline std::int32_t largest_of(Ints values) {
  const auto eight = __builtin_bit_cast(__m256i, values);
  const __m128i four =
      _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

#include "kernel/quantize/quantize_blocks.inc"

#include "kernel/quantize/quantize_natural.inc"

#include "kernel/quantize/quantize_formats.inc"

}  // namespace

constinit const QuantizeKernels kAvx2Quantize = kQuantize;

}  // namespace tally::kernel
#endif
