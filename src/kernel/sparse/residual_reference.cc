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

void zero_nonfinite(float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (!std::isfinite(values[i])) values[i] = 0;
}

void accumulate(const MomentumFactors& factors, const float* gradient, float* u, float* v,
                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    u[i] *= factors.momentum;
    u[i] += factors.scale * gradient[i];
    v[i] += u[i];
  }
}

void accumulate_nesterov(const MomentumFactors& factors, const float* gradient, float* u, float* v,
                         std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float scaled = factors.scale * gradient[i];
    u[i] += scaled;
    u[i] *= factors.momentum;
    v[i] += u[i] + scaled;
  }
}

void clear_sent(const float* sent, bool masks, float* u, float* v, std::size_t count) {
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
                                                 .zero_nonfinite = zero_nonfinite,
                                                 .accumulate = accumulate,
                                                 .accumulate_nesterov = accumulate_nesterov,
                                                 .clear_sent = clear_sent};
  return kReference;
}

}  // namespace tally::kernel
