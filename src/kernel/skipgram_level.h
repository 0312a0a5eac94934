#pragma once
#include "kernel/skipgram.h"

namespace tally::kernel {

// One level's step, with the table of sigmoid_of(). As in reduce_level.h, a level's source leaves nothing behind that
// the linker could merge with code of another level.
using SkipgramLoop = void (*)(const SkipgramBatch& batch, const float* sigmoid, float* gradients);

extern const SkipgramLoop kBaselineSkipgram;
#if defined(__x86_64__)
extern const SkipgramLoop kAvx2Skipgram;
extern const SkipgramLoop kAvx512Skipgram;
#endif

// What sigmoid_of() reads: kSigmoidEntries values.
const float* sigmoid_table();

}  // namespace tally::kernel
