#pragma once
#include <cstddef>

#include "kernel/level.h"

namespace tally::kernel {

// Rows are padded with zeros to a multiple of this many values, so that no loop has an end of its
// own.
inline constexpr std::size_t kSkipgramLanes = 16;
// Most inputs, and most outputs, of one batch.
inline constexpr std::size_t kSkipgramRows = 64;

// How many values a row of `dimension` values takes.
constexpr std::size_t skipgram_stride(std::size_t dimension) {
  return (dimension + kSkipgramLanes - 1) / kSkipgramLanes * kSkipgramLanes;
}

// One centre word of skip-gram with negative sampling: the rows of its neighbours, which predict,
// and those of the words that are predicted: first the centre itself, which is right, then words
// drawn by chance, which are wrong. Rows have `stride` values, a multiple of kSkipgramLanes. The
// same row may be there several times; no row is input and output.
struct SkipgramBatch {
  float* const* inputs = nullptr;
  std::size_t input_count = 0;
  float* const* outputs = nullptr;
  std::size_t output_count = 0;
  std::size_t stride = 0;
  float rate = 0;
};

// A number for each pair, those of an input side by side: rate * (label - sigmoid(input . output)).
// One for each thread.
struct alignas(64) SkipgramGradients {
  float values[kSkipgramRows * kSkipgramRows];
};

struct SkipgramKernels {
  // One step of gradient descent for all pairs at once: every output grows by the sum of gradient *
  // input, every input by that of gradient * output, all from the rows as they were. Leaves the
  // gradients behind.
  //
  // Others may read and write the rows meanwhile, without locks (Hogwild: Niu, Recht, Re, Wright
  // 2011). By the letter that is a data race. What happens is that an update is lost now and then:
  // values are read and written in aligned pieces of four bytes or more, so none is ever torn. The
  // thread sanitizer is told to leave these functions alone.
  void (*step)(const SkipgramBatch& batch, SkipgramGradients& gradients);

  // Only input . output of all pairs; changes no row.
  void (*products)(const SkipgramBatch& batch, SkipgramGradients& products);
};

// Of the best level of this processor; of a level from available_levels(); as plain loops. All give
// the same bits: the products of two rows are added in kSkipgramLanes lanes, and these in a fixed
// order.
const SkipgramKernels& skipgram_kernels();
const SkipgramKernels& skipgram_kernels(Level level);
const SkipgramKernels& skipgram_reference();

// The sum of -log(sigmoid(x . y)) over the right pairs and of -log(1 - sigmoid(x . y)) over the
// wrong ones, before the step that left these gradients. `rate` is positive.
double skipgram_loss(const SkipgramBatch& batch, const SkipgramGradients& gradients);

// The logistic function from a table of kSigmoidEntries values over [-kSigmoidLimit,
// kSigmoidLimit); outside 0 or 1.
inline constexpr int kSigmoidEntries = 1000;
inline constexpr float kSigmoidLimit = 6;
float sigmoid_of(float x);

}  // namespace tally::kernel
