#pragma once
#include "kernel/skipgram/skipgram.h"

namespace tally::kernel {

// The loops of one level; `sigmoid` is sigmoid_table(). As in reduce_level.h, a level's source
// leaves nothing behind that the linker could merge with code of another level.
struct SkipgramLoops {
  void (*step)(const SkipgramBatch& batch, const float* sigmoid, float* gradients);
  void (*products)(const SkipgramBatch& batch, float* products);
};

extern const SkipgramLoops kBaselineSkipgram;
#if defined(__x86_64__)
extern const SkipgramLoops kAvx2Skipgram;
extern const SkipgramLoops kAvx512Skipgram;
#endif

// What sigmoid_of() reads: kSigmoidEntries values.
const float* sigmoid_table();

}  // namespace tally::kernel
