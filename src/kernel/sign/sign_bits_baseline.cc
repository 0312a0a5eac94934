#include "kernel/sign/sign_bits_level.h"

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 16;

#include "kernel/sign/sign_bits_packs.inc"

// A bit for each lane that is -1.
inline std::uint32_t bits_of(Ints lanes) {
#if defined(__SSE2__)
  return static_cast<std::uint32_t>(_mm_movemask_ps(__builtin_bit_cast(__m128, lanes)));
#else
  std::uint32_t bits = 0;
  for (int i = 0; i < kWide; ++i) bits |= (static_cast<std::uint32_t>(lanes[i]) & 1U) << i;
  return bits;
#endif
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
  const Ints places = {1, 2, 4, 8};
  const Ints on = ((Ints{} + static_cast<std::int32_t>(bits)) & places) == places;
  return on ? set : clear;
}

#include "kernel/sign/majority_loops.inc"
#include "kernel/sign/sign_bits_loops.inc"

}  // namespace

constinit const SignKernels kBaselineSigns = {sign_bits, zero_bits, spread<false>, spread<true>,
                                              majority};

}  // namespace tally::kernel
