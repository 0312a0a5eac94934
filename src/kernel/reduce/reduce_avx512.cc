#include "kernel/reduce/reduce_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 64;

#include "kernel/reduce/reduce_packs.inc"

#include "kernel/reduce/reduce_f16c.inc"

// The conversions by one instruction each, which g++ 12 does not find for __builtin_convertvector.
// With a full mask: the plain forms warn of an uninitialised operand there.
template <>
[[maybe_unused]] Pack<std::uint32_t, 16> to_32_bits<16>(Pack<std::uint16_t, 16> narrow) {
  using Bits = Pack<std::uint32_t, 16>;
  const auto from = __builtin_bit_cast(__m256i, narrow);
  return __builtin_bit_cast(Bits, _mm512_maskz_cvtepu16_epi32(0xFFFF, from));
}
template <>
[[maybe_unused]] Pack<std::uint16_t, 16> to_16_bits<16>(Pack<std::uint32_t, 16> wide) {
  using Bits = Pack<std::uint16_t, 16>;
  const auto from = __builtin_bit_cast(__m512i, wide);
  return __builtin_bit_cast(Bits, _mm512_maskz_cvtepi32_epi16(0xFFFF, from));
}

template <>
[[maybe_unused]] Pack<float, 16> widen_float16<16>(Pack<std::uint16_t, 16> half) {
  using Floats = Pack<float, 16>;
  const auto from = __builtin_bit_cast(__m256i, half);
  return __builtin_bit_cast(Floats, _mm512_maskz_cvtph_ps(0xFFFF, from));
}
template <>
[[maybe_unused]] Pack<std::uint16_t, 16> narrow_float16<16>(Pack<float, 16> value) {
  using Halves = Pack<std::uint16_t, 16>;
  const auto from = __builtin_bit_cast(__m512, value);
  return __builtin_bit_cast(Halves, _mm512_maskz_cvtps_ph(0xFFFF, from, _MM_FROUND_TO_NEAREST_INT));
}

#include "kernel/reduce/reduce_loops.inc"

#include "kernel/reduce/reduce_blocks.inc"

#include "kernel/reduce/reduce_table.inc"

}  // namespace

constinit const LevelLoops kAvx512Loops = kLoops;

}  // namespace tally::kernel
#endif
