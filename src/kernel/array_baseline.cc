#include "kernel/array_level.h"

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 16;

#include "kernel/reduce_packs.inc"

#include "kernel/array_loops.inc"

}  // namespace

constinit const ArrayLoops kBaselineArrayLoops = kLoops;

}  // namespace tally::kernel
