#include <algorithm>
#include <bit>
#include <cmath>

#include "kernel/sparse/residual.h"

namespace tally::kernel {
namespace {

bool is_marked(float value, float least) {
  if (std::isnan(value)) return true;
  return std::fabs(value) >= least;
}

std::size_t mark(const float* values, std::size_t count, std::uint32_t least,
                 std::uint64_t* words) {
  std::fill_n(words, (count + 63) / 64, 0);
  std::size_t marked = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_marked(values[i], std::bit_cast<float>(least))) continue;
    words[i / 64] |= std::uint64_t{1} << (i % 64);
    ++marked;
  }
  return marked;
}

void keep_finite(float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (!std::isfinite(values[i])) values[i] = 0;
}

void gather(const MomentumFactors& factors, const float* gradient, float* u, float* v,
            std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    u[i] *= factors.momentum;
    u[i] += factors.scale * gradient[i];
    v[i] += u[i];
  }
}

void gather_nesterov(const MomentumFactors& factors, const float* gradient, float* u, float* v,
                     std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float scaled = factors.scale * gradient[i];
    u[i] += scaled;
    u[i] *= factors.momentum;
    v[i] += u[i] + scaled;
  }
}

void settle(const float* sent, bool masks, float* u, float* v, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(u[i])) u[i] = 0;
    if (sent[i] == 0) continue;
    v[i] = 0;
    if (masks) u[i] = 0;
  }
}

}  // namespace

const ResidualKernels& residual_reference() {
  static constexpr ResidualKernels kReference = {.mark = mark,
                                                 .keep_finite = keep_finite,
                                                 .gather = gather,
                                                 .gather_nesterov = gather_nesterov,
                                                 .settle = settle};
  return kReference;
}

}  // namespace tally::kernel
