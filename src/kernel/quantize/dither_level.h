#pragma once
#include "kernel/quantize/dither.h"

namespace tally::kernel {

// One level each. As in reduce_level.h, a level's source leaves nothing behind that the linker
// could merge with code of another level: so it has random_bits() of its own.
extern const DitherKernels kBaselineDither;
#if defined(__x86_64__)
extern const DitherKernels kAvx2Dither;
extern const DitherKernels kAvx512Dither;
#endif

}  // namespace tally::kernel
