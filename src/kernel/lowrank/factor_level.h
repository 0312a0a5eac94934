#pragma once
#include "kernel/lowrank/factor.h"

namespace tally::kernel {

// As in reduce_level.h, a level's source leaves nothing behind that the linker could merge with
// code of another level.
extern const FactorKernels kBaselineFactors;
#if defined(__x86_64__)
extern const FactorKernels kAvx2Factors;
extern const FactorKernels kAvx512Factors;
#endif

}  // namespace tally::kernel
