#include "kernel/reduce/reduce_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 32;

#include "kernel/reduce/reduce_packs.inc"

#include "kernel/reduce/reduce_f16c.inc"

// One instruction; g++ 12 takes four for __builtin_convertvector.
template <>
[[maybe_unused]] Pack<std::uint32_t, 8> to_32_bits<8>(Pack<std::uint16_t, 8> narrow) {
  using Bits = Pack<std::uint32_t, 8>;
  return __builtin_bit_cast(Bits, _mm256_cvtepu16_epi32(__builtin_bit_cast(__m128i, narrow)));
}

template <>
[[maybe_unused]] Pack<float, 8> widen_float16<8>(Pack<std::uint16_t, 8> half) {
  using Floats = Pack<float, 8>;
  return __builtin_bit_cast(Floats, _mm256_cvtph_ps(__builtin_bit_cast(__m128i, half)));
}
template <>
[[maybe_unused]] Pack<std::uint16_t, 8> narrow_float16<8>(Pack<float, 8> value) {
  using Halves = Pack<std::uint16_t, 8>;
  return __builtin_bit_cast(
      Halves, _mm256_cvtps_ph(__builtin_bit_cast(__m256, value), _MM_FROUND_TO_NEAREST_INT));
}

#include "kernel/reduce/reduce_loops.inc"

#include "kernel/reduce/reduce_blocks.inc"

#include "kernel/reduce/reduce_table.inc"

}  // namespace

constinit const LevelLoops kAvx2Loops = kLoops;

}  // namespace tally::kernel
#endif
