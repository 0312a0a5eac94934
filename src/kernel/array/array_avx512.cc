#include "kernel/array/array_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 64;

#include "kernel/reduce/reduce_packs.inc"

// One instruction, where g++ 12 takes four for __builtin_convertvector. With a full mask: the plain
// form warns of an uninitialised operand there.
template <int kLanes>
Pack<double, kLanes> to_doubles(Pack<float, kLanes> values) {
  using Doubles = Pack<double, kLanes>;
  const auto from = __builtin_bit_cast(__m256, values);
  return __builtin_bit_cast(Doubles, _mm512_maskz_cvtps_pd(0xFF, from));
}

#include "kernel/array/array_loops.inc"

}  // namespace

constinit const ArrayLoops kAvx512ArrayLoops = kLoops;

}  // namespace tally::kernel
#endif
