#include "kernel/sparse/residual_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace tally::kernel {
namespace {

// Magnitudes have no sign bit, so they compare as signed integers.
inline std::uint64_t mark64(const float* values, std::uint32_t least) {
  const __m256i magnitude_bits = _mm256_set1_epi32(static_cast<int>(kMagnitudeBits));
  const __m256i below = _mm256_set1_epi32(static_cast<int>(least) - 1);
  std::uint64_t word = 0;
  for (int p = 0; p < 8; ++p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + 8 * p));
    const __m256i above = _mm256_cmpgt_epi32(_mm256_and_si256(bits, magnitude_bits), below);
    const auto eight = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(above)));
    word |= std::uint64_t{eight} << (8 * p);
  }
  return word;
}

#include "kernel/sparse/residual_loops.inc"

}  // namespace

constinit const ResidualKernels kAvx2Residuals = kResiduals;

}  // namespace tally::kernel
#endif
