#include "kernel/array/weighted_sum.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "kernel/array/array_loops.h"

namespace tally::kernel {
namespace {

// Fits into the L1 cache together with the inputs.
constexpr std::size_t kBlock = 2048;

// Up to kInputsAtOnce inputs to read, with their weights.
template <typename T>
struct Some {
  std::array<const void*, kInputsAtOnce> inputs = {};
  std::array<T, kInputsAtOnce> weights = {};
  std::size_t count = 0;
};

// The next inputs with a weight, from `next` on; moves `next` behind them.
template <typename T>
Some<T> take(std::span<const void* const> inputs, std::span<const T> weights, std::size_t& next) {
  Some<T> some;
  for (; next < inputs.size() && some.count < kInputsAtOnce; ++next) {
    if (weights[next] == 0) continue;
    some.inputs[some.count] = inputs[next];
    some.weights[some.count] = weights[next];
    ++some.count;
  }
  return some;
}

template <typename T>
void sum_plain(const ArrayLoopsOf<T>& loops, const Some<T>& some, std::size_t begin, bool add,
               T* out, std::size_t count) {
  std::array<const T*, kInputsAtOnce> from = {};
  for (std::size_t r = 0; r < some.count; ++r) {
    from[r] = static_cast<const T*>(some.inputs[r]) + begin;
  }
  loops.weighted_sum(from.data(), some.weights.data(), some.count, add, out, count);
}

// More inputs than one pass takes: sums block by block in a buffer, so that `out` may be any of the
// inputs.
template <typename T>
void sum_blocks(const ArrayLoopsOf<T>& loops, std::span<const void* const> inputs,
                std::span<const T> weights, T* out, std::size_t count) {
  std::array<T, kBlock> sums;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t length = std::min(kBlock, count - begin);
    std::size_t next = 0;
    bool add = false;
    for (Some<T> some = take(inputs, weights, next); some.count != 0;
         some = take(inputs, weights, next)) {
      sum_plain(loops, some, begin, add, sums.data(), length);
      add = true;
    }
    std::memcpy(out + begin, sums.data(), length * sizeof(T));
  }
}

template <typename T>
void sum_floats(const ArrayLoopsOf<T>& loops, std::span<const void* const> inputs,
                std::span<const T> weights, T* out, std::size_t count) {
  std::size_t next = 0;
  const Some<T> first = take(inputs, weights, next);
  if (first.count == 0) {
    std::fill_n(out, count, T(0));
    return;
  }
  if (take(inputs, weights, next).count != 0) return sum_blocks(loops, inputs, weights, out, count);
  sum_plain(loops, first, 0, false, out, count);
}

// Half types are widened block by block, and added while they are in the L1 cache.
void sum_halves(const ArrayLoopsOf<float>& loops, const Kernels& kernels, DataType type,
                std::span<const void* const> inputs, std::span<const float> weights, float* out,
                std::size_t count) {
  std::array<float, kBlock> values;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t length = std::min(kBlock, count - begin);
    bool add = false;
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      if (weights[r] == 0) continue;
      const auto* const from = static_cast<const std::byte*>(inputs[r]) + begin * size_of(type);
      kernels.widen(type, from, values.data(), length);
      const float* const widened = values.data();
      loops.weighted_sum(&widened, &weights[r], 1, add, out + begin, length);
      add = true;
    }
    if (!add) std::fill_n(out + begin, length, 0.0F);
  }
}

}  // namespace

void weighted_sum(DataType type, std::span<const void* const> inputs,
                  std::span<const float> weights, float* out, std::size_t count,
                  std::optional<Level> level) {
  TALLY_CHECK(inputs.size() == weights.size());
  const auto& loops = array_loops(level).of_float;
  if (type == DataType::kFloat32) return sum_floats(loops, inputs, weights, out, count);
  TALLY_CHECK(type == DataType::kFloat16 || type == DataType::kBFloat16);
  sum_halves(loops, kernels(level), type, inputs, weights, out, count);
}

void weighted_sum(DataType type, std::span<const void* const> inputs,
                  std::span<const double> weights, double* out, std::size_t count,
                  std::optional<Level> level) {
  TALLY_CHECK(inputs.size() == weights.size());
  TALLY_CHECK(type == DataType::kFloat64);
  sum_floats(array_loops(level).of_double, inputs, weights, out, count);
}

template <typename T>
void clamp(T* data, std::size_t count, T limit, std::optional<Level> level) {
  TALLY_CHECK(limit >= 0);
  array_loops(level).of<T>().clamp(data, count, limit);
}

template <typename T>
void scale(T* data, std::size_t count, T factor, std::optional<Level> level) {
  array_loops(level).of<T>().scale(data, count, factor);
}

template void clamp(float*, std::size_t, float, std::optional<Level>);
template void clamp(double*, std::size_t, double, std::optional<Level>);
template void scale(float*, std::size_t, float, std::optional<Level>);
template void scale(double*, std::size_t, double, std::optional<Level>);

}  // namespace tally::kernel
