#include "kernel/quantize/dither_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 32;

#include "kernel/quantize/dither_packs.inc"

inline void store_levels(std::int8_t* to, Ints levels) {
  const auto lanes = __builtin_bit_cast(__m256i, levels);
  const __m128i halves =
      _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  const std::int64_t eight = _mm_cvtsi128_si64(_mm_packs_epi16(halves, halves));
  __builtin_memcpy(to, &eight, sizeof eight);
}

inline Ints load_levels(const std::int8_t* from) {
  std::int64_t eight = 0;
  __builtin_memcpy(&eight, from, sizeof eight);
  return __builtin_bit_cast(Ints, _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(eight)));
}

#include "kernel/quantize/dither_loops.inc"

}  // namespace

constinit const DitherKernels kAvx2Dither = {max_magnitude, round_all, widen, add};

}  // namespace tally::kernel
#endif
