#include <cstddef>
#include <cstdint>

#include "kernel/reduce_level.h"

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 16;

#include "kernel/reduce_packs.inc"

#include "kernel/reduce_loops.inc"

#include "kernel/reduce_blocks.inc"

#include "kernel/reduce_table.inc"

}  // namespace

constinit const LevelLoops kBaselineLoops = kLoops;

}  // namespace tally::kernel
