#pragma once
#include <cstddef>
#include <optional>

#include "kernel/level.h"

namespace tally::kernel {

// Rows are padded with zeros to a multiple of this many values, so that no loop has a remainder.
inline constexpr std::size_t kSkipgramLanes = 16;
// The largest number of inputs, and of outputs, of one batch.
inline constexpr std::size_t kSkipgramRows = 64;

// The number of values of a padded row of `dimension` values.
constexpr std::size_t skipgram_stride(std::size_t dimension) {
  return (dimension + kSkipgramLanes - 1) / kSkipgramLanes * kSkipgramLanes;
}

// One centre word of skip-gram with negative sampling. The inputs are the rows of its neighbours;
// the outputs are the rows of the predicted words: first the centre itself (the positive sample),
// then randomly drawn words (the negative samples). Rows have `stride` values, a multiple of
// kSkipgramLanes. A row may occur several times, but not both as input and as output.
struct SkipgramBatch {
  float* const* inputs = nullptr;
  std::size_t input_count = 0;
  float* const* outputs = nullptr;
  std::size_t output_count = 0;
  std::size_t stride = 0;
  float rate = 0;
};

// One number per pair, those of an input side by side: rate * (label - sigmoid(input . output)).
// One object per thread.
struct alignas(64) SkipgramGradients {
  float values[kSkipgramRows * kSkipgramRows];
};

struct SkipgramKernels {
  // One step of gradient descent for all pairs at once: every output grows by the sum of gradient *
  // input, every input by the sum of gradient * output, all from the rows as they were. Leaves the
  // gradients in `gradients`.
  //
  // Other threads may read and write the rows at the same time, without locks (Hogwild: Niu, Recht,
  // Re, Wright 2011). Formally this is a data race. In practice an update is lost now and then:
  // values are read and written in aligned pieces of at least four bytes, so no value is torn. The
  // thread sanitizer is told to ignore these functions.
  void (*step)(const SkipgramBatch& batch, SkipgramGradients& gradients);

  // Computes input . output of all pairs only; changes no row.
  void (*products)(const SkipgramBatch& batch, SkipgramGradients& products);
};

// Compiled from skipgram_loops.inc.
struct SkipgramLevels {
  static const SkipgramKernels baseline, avx2, avx512;
};

// The loops of a level (see table_of()), and plain loops for tests to compare with. All give the
// same bits: the products of two rows are added in kSkipgramLanes lanes, and these in a fixed
// order.
inline const SkipgramKernels& skipgram_kernels(std::optional<Level> level = {}) {
  return table_of<SkipgramLevels>(level);
}
const SkipgramKernels& skipgram_reference();

// Aborts if the loops cannot take the batch.
void check_batch(const SkipgramBatch& batch);

// The sum of -log(sigmoid(x . y)) over the positive pairs and of -log(1 - sigmoid(x . y)) over the
// negative ones, before the step that left these gradients. `rate` is positive.
double skipgram_loss(const SkipgramBatch& batch, const SkipgramGradients& gradients);

// The logistic function from a table of kSigmoidEntries values over [-kSigmoidLimit,
// kSigmoidLimit); 0 or 1 outside.
inline constexpr int kSigmoidEntries = 1000;
inline constexpr float kSigmoidLimit = 6;
float sigmoid_of(float x);
const float* sigmoid_table();

}  // namespace tally::kernel
