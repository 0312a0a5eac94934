#include "kernel/quantize/dither_level.h"

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 16;

#include "kernel/quantize/dither_packs.inc"

#if defined(__SSE2__)
inline void store_levels(std::int8_t* to, Ints levels) {
  const auto lanes = __builtin_bit_cast(__m128i, levels);
  const __m128i halves = _mm_packs_epi32(lanes, lanes);
  const std::int32_t four = _mm_cvtsi128_si32(_mm_packs_epi16(halves, halves));
  __builtin_memcpy(to, &four, sizeof four);
}

// Each byte to the top of a lane, then down with its sign.
inline Ints load_levels(const std::int8_t* from) {
  std::int32_t four = 0;
  __builtin_memcpy(&four, from, sizeof four);
  const __m128i bytes = _mm_cvtsi32_si128(four);
  const __m128i pairs = _mm_unpacklo_epi8(bytes, bytes);
  return __builtin_bit_cast(Ints, _mm_srai_epi32(_mm_unpacklo_epi16(pairs, pairs), 24));
}
#else
inline void store_levels(std::int8_t* to, Ints levels) {
  for (int i = 0; i < kWide; ++i) to[i] = static_cast<std::int8_t>(levels[i]);
}

inline Ints load_levels(const std::int8_t* from) {
  Ints levels = {};
  for (int i = 0; i < kWide; ++i) levels[i] = from[i];
  return levels;
}
#endif

#include "kernel/quantize/dither_loops.inc"

}  // namespace

constinit const DitherKernels kBaselineDither = {max_magnitude, round_all, widen, add};

}  // namespace tally::kernel
