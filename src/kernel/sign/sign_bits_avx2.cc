#include "kernel/sign/sign_bits_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 32;

#include "kernel/sign/sign_bits_packs.inc"

// A bit for each lane that is -1.
inline std::uint32_t bits_of(Ints lanes) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(__builtin_bit_cast(__m256, lanes)));
}

inline std::uint32_t add_sides(Floats values, Floats& negative, Floats& other) {
  const Ints below = values < Floats{};
  const Ints all = __builtin_bit_cast(Ints, values);
  negative += __builtin_bit_cast(Floats, all & below);
  other += __builtin_bit_cast(Floats, all & ~below);
  return bits_of(below);
}

inline std::uint32_t zeros_of(Floats values) { return bits_of(values == Floats{}); }

inline Floats chosen(std::uint32_t bits, Floats clear, Floats set) {
  const Ints places = {1, 2, 4, 8, 16, 32, 64, 128};
  const Ints on = ((Ints{} + static_cast<std::int32_t>(bits)) & places) == places;
  return on ? set : clear;
}

#include "kernel/sign/majority_loops.inc"
#include "kernel/sign/sign_bits_loops.inc"

}  // namespace

constinit const SignKernels kAvx2Signs = {sign_bits, zero_bits, spread<false>, spread<true>,
                                          majority};

}  // namespace tally::kernel
#endif
