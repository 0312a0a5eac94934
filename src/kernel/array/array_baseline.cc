#include "kernel/array/array_level.h"

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 16;

#include "kernel/reduce/reduce_packs.inc"

// The compiler's own conversion.
template <int kLanes>
Pack<double, kLanes> to_doubles(Pack<float, kLanes> values) {
  return __builtin_convertvector(values, Pack<double, kLanes>);
}

#include "kernel/array/array_loops.inc"

}  // namespace

constinit const ArrayLoops kBaselineArrayLoops = kLoops;

}  // namespace tally::kernel
