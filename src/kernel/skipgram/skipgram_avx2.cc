#include "kernel/skipgram/skipgram_level.h"

#if defined(__x86_64__)
#include <cstddef>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 32;
// What the registers have room for: inputs whose products are summed together, columns that are
// updated together.
constexpr int kInputsTogether = 2;
constexpr int kColumnsTogether = 2;

#include "kernel/skipgram/skipgram_loops.inc"

}  // namespace

constinit const SkipgramLoops kAvx2Skipgram = {step_loop, multiply};

}  // namespace tally::kernel
#endif
