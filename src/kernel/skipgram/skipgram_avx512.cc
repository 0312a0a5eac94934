#include "kernel/skipgram/skipgram_level.h"

#if defined(__x86_64__)
#include <cstddef>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 64;
// What the registers have room for: inputs whose products are summed together, columns that are
// updated together.
constexpr int kInputsTogether = 4;
constexpr int kColumnsTogether = 4;

#include "kernel/skipgram/skipgram_loops.inc"

}  // namespace

constinit const SkipgramLoops kAvx512Skipgram = {step_loop, multiply};

}  // namespace tally::kernel
#endif
