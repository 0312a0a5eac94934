#pragma once
#include "kernel/update/update.h"

namespace tally::kernel {

// The loops of one level, for both types. As in reduce_level.h, a level's source leaves nothing
// behind that the linker could merge with code of another level.
struct UpdateLoops {
  UpdateKernels<float> of_float;
  UpdateKernels<double> of_double;
};

extern const UpdateLoops kBaselineUpdates;
#if defined(__x86_64__)
extern const UpdateLoops kAvx2Updates;
extern const UpdateLoops kAvx512Updates;
#endif

}  // namespace tally::kernel
