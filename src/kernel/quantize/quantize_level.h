#pragma once
#include "kernel/quantize/quantize.h"

namespace tally::kernel {

// The loops of one level. As in reduce_level.h, a level's source leaves nothing behind that the
// linker could merge with code of another level.
extern const QuantizeKernels kBaselineQuantize;
#if defined(__x86_64__)
extern const QuantizeKernels kAvx2Quantize;
extern const QuantizeKernels kAvx512Quantize;
#endif

}  // namespace tally::kernel
