#pragma once
#include "kernel/sparse/residual.h"

namespace tally::kernel {

// As in reduce_level.h, a level's source leaves nothing behind that the linker could merge with
// code of another level.
extern const ResidualKernels kBaselineResiduals;
#if defined(__x86_64__)
extern const ResidualKernels kAvx2Residuals;
extern const ResidualKernels kAvx512Residuals;
#endif

}  // namespace tally::kernel
