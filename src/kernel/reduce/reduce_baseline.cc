#include <cstddef>
#include <cstdint>

#include "kernel/reduce/reduce_level.h"

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 16;

#include "kernel/reduce/reduce_packs.inc"

#include "kernel/reduce/reduce_loops.inc"

#include "kernel/reduce/reduce_blocks.inc"

#include "kernel/reduce/reduce_table.inc"

}  // namespace

constinit const LevelLoops kBaselineLoops = kLoops;

}  // namespace tally::kernel
