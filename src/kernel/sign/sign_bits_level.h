#pragma once
#include "kernel/sign/sign_bits.h"

namespace tally::kernel {

// One level each. As in reduce_level.h, a level's source leaves nothing behind that the linker
// could merge with code of another level.
extern const SignKernels kBaselineSigns;
#if defined(__x86_64__)
extern const SignKernels kAvx2Signs;
extern const SignKernels kAvx512Signs;
#endif

}  // namespace tally::kernel
