#include "kernel/sparse/residual_level.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tally::kernel {
namespace {

#if defined(__x86_64__)
// Magnitudes have no sign bit, so they compare as signed integers.
inline std::uint64_t mark64(const float* values, std::uint32_t least) {
  const __m128i magnitude_bits = _mm_set1_epi32(static_cast<int>(kMagnitudeBits));
  const __m128i below = _mm_set1_epi32(static_cast<int>(least) - 1);
  std::uint64_t word = 0;
  for (int p = 0; p < 16; ++p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + 4 * p));
    const __m128i above = _mm_cmpgt_epi32(_mm_and_si128(bits, magnitude_bits), below);
    const auto four = static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(above)));
    word |= std::uint64_t{four} << (4 * p);
  }
  return word;
}
#else
inline std::uint64_t mark64(const float* values, std::uint32_t least) {
  std::uint64_t word = 0;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, values[i]) & kMagnitudeBits;
    word |= std::uint64_t{bits >= least} << i;
  }
  return word;
}
#endif

#include "kernel/sparse/residual_loops.inc"

}  // namespace

constinit const ResidualKernels kBaselineResiduals = kResiduals;

}  // namespace tally::kernel
