#include "kernel/skipgram/skipgram_level.h"

#include <cstddef>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 16;
// What the registers have room for: inputs whose products are summed together, columns that are
// updated together.
constexpr int kInputsTogether = 1;
constexpr int kColumnsTogether = 1;

#include "kernel/skipgram/skipgram_loops.inc"

}  // namespace

constinit const SkipgramLoops kBaselineSkipgram = {step_loop, multiply};

}  // namespace tally::kernel
