#include "kernel/sign/sign_bits_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 64;

#include "kernel/sign/sign_bits_packs.inc"

// A lane that nothing is added to keeps its bits, as it does where zero is added: no sum is -0.
inline std::uint32_t add_sides(Floats values, Floats& negative, Floats& other) {
  const __mmask16 below = _mm512_cmp_ps_mask(values, _mm512_setzero_ps(), _CMP_LT_OQ);
  negative = _mm512_mask_add_ps(negative, below, negative, values);
  other = _mm512_mask_add_ps(other, static_cast<__mmask16>(~below), other, values);
  return below;
}

inline std::uint32_t zeros_of(Floats values) {
  return _mm512_cmp_ps_mask(values, _mm512_setzero_ps(), _CMP_EQ_OQ);
}

inline Floats chosen(std::uint32_t bits, Floats clear, Floats set) {
  return _mm512_mask_blend_ps(static_cast<__mmask16>(bits), clear, set);
}

#include "kernel/sign/majority_loops.inc"
#include "kernel/sign/sign_bits_loops.inc"

}  // namespace

constinit const SignKernels kAvx512Signs = {sign_bits, zero_bits, spread<false>, spread<true>,
                                            majority};

}  // namespace tally::kernel
#endif
