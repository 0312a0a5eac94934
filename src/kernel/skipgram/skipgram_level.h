#pragma once
#include "kernel/skipgram/skipgram.h"

namespace tally::kernel {

// The loops of one level; `sigmoid` is sigmoid_table().
struct SkipgramLoops {
  void (*step)(const SkipgramBatch& batch, const float* sigmoid, float* gradients);
  void (*products)(const SkipgramBatch& batch, float* products);
};

// Compiled from skipgram_loops.inc.
struct SkipgramLevels {
  static const SkipgramLoops baseline, avx2, avx512;
};

// The table of sigmoid_of(): kSigmoidEntries values.
const float* sigmoid_table();

}  // namespace tally::kernel
