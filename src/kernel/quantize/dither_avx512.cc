#include "kernel/quantize/dither_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 64;

#include "kernel/quantize/dither_packs.inc"

// With a full mask: the plain forms warn of an uninitialised operand in g++ 12.
inline void store_levels(std::int8_t* to, Ints levels) {
  const __m128i bytes = _mm512_maskz_cvtepi32_epi8(0xFFFF, __builtin_bit_cast(__m512i, levels));
  __builtin_memcpy(to, &bytes, sizeof bytes);
}

inline Ints load_levels(const std::int8_t* from) {
  __m128i bytes;
  __builtin_memcpy(&bytes, from, sizeof bytes);
  return __builtin_bit_cast(Ints, _mm512_maskz_cvtepi8_epi32(0xFFFF, bytes));
}

#include "kernel/quantize/dither_loops.inc"

}  // namespace

constinit const DitherKernels kAvx512Dither = {max_magnitude, round_all, widen, add};

}  // namespace tally::kernel
#endif
