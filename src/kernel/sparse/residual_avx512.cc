#include "kernel/sparse/residual_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace tally::kernel {
namespace {

inline std::uint64_t mark64(const float* values, std::uint32_t least) {
  const __m512i magnitude_bits = _mm512_set1_epi32(static_cast<int>(kMagnitudeBits));
  const __m512i limit = _mm512_set1_epi32(static_cast<int>(least));
  std::uint64_t word = 0;
  for (int p = 0; p < 4; ++p) {
    const __m512i bits = _mm512_loadu_si512(values + 16 * p);
    const __mmask16 sixteen =
        _mm512_cmpge_epu32_mask(_mm512_and_si512(bits, magnitude_bits), limit);
    word |= std::uint64_t{sixteen} << (16 * p);
  }
  return word;
}

#include "kernel/sparse/residual_loops.inc"

}  // namespace

constinit const ResidualKernels kAvx512Residuals = kResiduals;

}  // namespace tally::kernel
#endif
