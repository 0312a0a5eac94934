#include <cmath>
#include <limits>

#include "kernel/quantize/stochastic.h"

namespace tally::kernel {
namespace {

float max_magnitude(const float* values, std::size_t count) {
  float most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isnan(values[i])) return std::numeric_limits<float>::quiet_NaN();
    most = std::fmax(most, std::fabs(values[i]));
  }
  return most;
}

void round_all(const float* values, std::size_t count, const StochasticRounding& rounding,
               std::int8_t* levels) {
  for (std::size_t i = 0; i < count; ++i) {
    const float place =
        std::fmin(std::fabs(values[i]), rounding.scale) / rounding.scale * rounding.levels;
    const float below = std::floor(place);
    const std::uint32_t random =
        random_bits(rounding.key, rounding.first + static_cast<std::uint32_t>(i));
    const float level = unit_of(random) < place - below ? below + 1 : below;
    levels[i] = static_cast<std::int8_t>(std::signbit(values[i]) ? -level : level);
  }
}

void widen(const std::int8_t* levels, std::size_t count, const LevelValues& values,
           const float* weight, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const float share = static_cast<float>(levels[i]) * values.unit;
    const float value = share * values.scale;
    out[i] = weight == nullptr ? value : out[i] + *weight * value;
  }
}

}  // namespace

const StochasticKernels& stochastic_reference() {
  static constexpr StochasticKernels kReference = {max_magnitude, round_all, widen};
  return kReference;
}

}  // namespace tally::kernel
