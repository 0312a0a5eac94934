#include "base/check.h"
#include "kernel/array/weighted_sum.h"

namespace tally::kernel {
namespace {

template <typename T>
T value_at(DataType type, const void* input, std::size_t index) {
  if (type == kDataTypeOf<T>) return static_cast<const T*>(input)[index];
  float value = 0;
  const auto* const from = static_cast<const std::byte*>(input) + index * size_of(type);
  reference_kernels().widen(type, from, &value, 1);
  return static_cast<T>(value);
}

template <typename T>
void sum_reference(DataType type, std::span<const void* const> inputs, std::span<const T> weights,
                   T* out, std::size_t count) {
  TALLY_CHECK(inputs.size() == weights.size());
  for (std::size_t i = 0; i < count; ++i) {
    T sum = 0;
    bool any = false;
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      if (weights[r] == 0) continue;
      const T product = weights[r] * value_at<T>(type, inputs[r], i);
      sum = any ? sum + product : product;
      any = true;
    }
    out[i] = sum;
  }
}

}  // namespace

void weighted_sum_reference(DataType type, std::span<const void* const> inputs,
                            std::span<const float> weights, float* out, std::size_t count) {
  sum_reference(type, inputs, weights, out, count);
}

void weighted_sum_reference(DataType type, std::span<const void* const> inputs,
                            std::span<const double> weights, double* out, std::size_t count) {
  sum_reference(type, inputs, weights, out, count);
}

}  // namespace tally::kernel
