#include "kernel/skipgram/skipgram.h"

#include <array>
#include <cmath>

#include "base/check.h"

namespace tally::kernel {
namespace {

std::array<float, kSigmoidEntries> make_sigmoid_table() {
  std::array<float, kSigmoidEntries> table{};
  for (int i = 0; i < kSigmoidEntries; ++i) {
    const double x = (2.0 * i / kSigmoidEntries - 1) * kSigmoidLimit;
    table[static_cast<std::size_t>(i)] = static_cast<float>(1 / (1 + std::exp(-x)));
  }
  return table;
}

}  // namespace

const float* sigmoid_table() {
  static const std::array<float, kSigmoidEntries> table = make_sigmoid_table();
  return table.data();
}

void check_batch(const SkipgramBatch& batch) {
  TALLY_CHECK(batch.input_count <= kSkipgramRows && batch.output_count <= kSkipgramRows);
  TALLY_CHECK(batch.stride % kSkipgramLanes == 0);
}

double skipgram_loss(const SkipgramBatch& batch, const SkipgramGradients& gradients) {
  constexpr double kLeast = 1e-7;
  const float* value = gradients.values;
  double loss = 0;
  for (std::size_t i = 0; i < batch.input_count; ++i) {
    for (std::size_t o = 0; o < batch.output_count; ++o, ++value) {
      // gradient / rate is label - sigmoid: the probability of the wrong label.
      const double missing = std::fabs(static_cast<double>(*value) / batch.rate);
      loss -= std::log(std::fmax(1 - missing, kLeast));
    }
  }
  return loss;
}

}  // namespace tally::kernel
