#include "apps/train/report_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace tally::app {
namespace {

constexpr double kLogarithmicFrom = 100;  // ratio of the greatest value to the least

// Returns the least of 1, 2, 5 times a power of ten that is not below `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

Axis linear_axis(double least, double greatest, int most_ticks) {
  // Equal values: add room around them, so that they lie in the middle.
  if (!(greatest - least > 1e-12 * std::max(std::abs(least), std::abs(greatest)))) {
    const double room = least == 0 ? 1 : std::abs(least) * 0.5;
    least -= room;
    greatest += room;
  }
  const double step = round_step((greatest - least) / most_ticks);
  Axis axis;
  axis.low = std::floor(least / step + 1e-9) * step;
  axis.high = std::ceil(greatest / step - 1e-9) * step;
  const auto count = static_cast<int>(std::lround((axis.high - axis.low) / step));
  for (int i = 0; i <= count; ++i) {
    const double tick = axis.low + i * step;
    axis.ticks.push_back(std::abs(tick) < step * 1e-6 ? 0 : tick);
  }
  return axis;
}

Axis logarithmic_axis(double least, double greatest, int most_ticks) {
  const auto first = static_cast<int>(std::floor(std::log10(least) + 1e-9));
  const auto last = static_cast<int>(std::ceil(std::log10(greatest) - 1e-9));
  Axis axis{.low = std::pow(10.0, first), .high = std::pow(10.0, last), .logarithmic = true};
  const int every = std::max(1, (last - first + most_ticks - 1) / most_ticks);
  for (int power = first; power <= last; power += every)
    axis.ticks.push_back(std::pow(10.0, power));
  return axis;
}

}  // namespace

double Axis::place(double value) const {
  if (!logarithmic) return (value - low) / (high - low);
  if (!(value > 0)) return -1;
  return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
}

Axis axis_around(std::span<const double> values, int most_ticks, bool may_be_logarithmic) {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  if (least > greatest) return linear_axis(0, 1, most_ticks);
  // Differences and steps must be finite as well.
  least = std::clamp(least, -1e300, 1e300);
  greatest = std::clamp(greatest, -1e300, 1e300);
  if (may_be_logarithmic && least > 1e-300 && greatest / least > kLogarithmicFrom)
    return logarithmic_axis(least, greatest, most_ticks);
  return linear_axis(least, greatest, most_ticks);
}

std::vector<std::string> tick_labels(const Axis& axis) {
  std::vector<std::string> labels;
  const double greatest = std::max(std::abs(axis.low), std::abs(axis.high));
  const double step = axis.ticks.size() > 1 ? axis.ticks[1] - axis.ticks[0] : 1;
  const bool scientific = axis.logarithmic || greatest >= 1e7 || step < 1e-6;
  const int digits =
      scientific ? 0 : std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  for (const double tick : axis.ticks) {
    const bool plain_power = axis.logarithmic && tick >= 1e-3 && tick < 1e5;
    if (scientific && !plain_power) {
      // Enough digits to distinguish a step at the greatest value.
      const double ratio = axis.logarithmic ? 1 : greatest / step;
      const int precision = std::clamp(static_cast<int>(std::ceil(std::log10(ratio))) + 1, 1, 9);
      labels.push_back(fmt::format("{:.{}g}", tick, precision));
    } else if (plain_power) {
      labels.push_back(fmt::format("{:.5g}", tick));
    } else {
      labels.push_back(fmt::format("{:.{}f}", tick, digits));
    }
  }
  return labels;
}

std::vector<std::size_t> thinned(std::span<const double> values, std::size_t most) {
  std::vector<std::size_t> kept;
  if (values.size() <= most || most < 4) {
    for (std::size_t i = 0; i < values.size(); ++i) kept.push_back(i);
    return kept;
  }
  const auto height = [&](std::size_t i) {
    return std::isfinite(values[i]) ? values[i] : std::numeric_limits<double>::infinity();
  };
  const std::size_t stretches = most / 4;
  for (std::size_t s = 0; s < stretches; ++s) {
    const std::size_t begin = values.size() * s / stretches;
    const std::size_t end = values.size() * (s + 1) / stretches;
    std::size_t low = begin;
    std::size_t high = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (height(i) < height(low)) low = i;
      if (height(i) > height(high)) high = i;
    }
    for (const std::size_t i : {begin, std::min(low, high), std::max(low, high), end - 1})
      if (kept.empty() || kept.back() < i) kept.push_back(i);
  }
  return kept;
}

}  // namespace tally::app
