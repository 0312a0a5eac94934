#include <cstddef>
#include <vector>

#include "kernel/skipgram/skipgram.h"

namespace tally::kernel {
namespace {

float product(const float* a, const float* b, std::size_t count) {
  float lanes[kSkipgramLanes] = {};
  for (std::size_t i = 0; i < count; ++i) lanes[i % kSkipgramLanes] += a[i] * b[i];
  for (std::size_t half = kSkipgramLanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

// The change of a row: the weighted sum of the sources.
std::vector<float> growth(float* const* sources, std::size_t count, const float* weights,
                          std::size_t weight_step, std::size_t stride) {
  std::vector<float> sum(stride, 0.0F);
  for (std::size_t s = 0; s < count; ++s)
    for (std::size_t i = 0; i < stride; ++i) sum[i] += weights[s * weight_step] * sources[s][i];
  return sum;
}

void products_reference(const SkipgramBatch& b, SkipgramGradients& products) {
  for (std::size_t i = 0; i < b.input_count; ++i)
    for (std::size_t o = 0; o < b.output_count; ++o)
      products.values[i * b.output_count + o] = product(b.inputs[i], b.outputs[o], b.stride);
}

void step_reference(const SkipgramBatch& b, SkipgramGradients& gradients) {
  float* const g = gradients.values;
  products_reference(b, gradients);
  for (std::size_t pair = 0; pair < b.input_count * b.output_count; ++pair)
    g[pair] = b.rate * ((pair % b.output_count == 0 ? 1.0F : 0.0F) - sigmoid_of(g[pair]));

  std::vector<std::vector<float>> rows;
  for (std::size_t i = 0; i < b.input_count; ++i)
    rows.push_back(growth(b.outputs, b.output_count, g + i * b.output_count, 1, b.stride));
  for (std::size_t o = 0; o < b.output_count; ++o)
    rows.push_back(growth(b.inputs, b.input_count, g + o, b.output_count, b.stride));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    float* const row = r < b.input_count ? b.inputs[r] : b.outputs[r - b.input_count];
    for (std::size_t i = 0; i < b.stride; ++i) row[i] += rows[r][i];
  }
}

}  // namespace

float sigmoid_of(float x) {
  if (!(x >= -kSigmoidLimit)) return 0;
  if (x >= kSigmoidLimit) return 1;
  const auto entry =
      static_cast<int>((x + kSigmoidLimit) * (kSigmoidEntries / (2 * kSigmoidLimit)));
  return sigmoid_table()[entry < kSigmoidEntries ? entry : kSigmoidEntries - 1];
}

const SkipgramKernels& skipgram_reference() {
  static constexpr SkipgramKernels kReference = {step_reference, products_reference};
  return kReference;
}

}  // namespace tally::kernel
