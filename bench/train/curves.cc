#include "bench/train/curves.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tally::bench::train {
namespace {

Error mismatch(const std::string& message) {
  return {.code = ErrorCode::kMismatch, .message = message};
}

double difference(double a, double b) {
  const double larger = std::max(std::abs(a), std::abs(b));
  return larger == 0 ? 0 : std::abs(a - b) / larger;
}

// Checks that a curve is finite and shows learning.
Result<void> meaningful(const Curve& curve) {
  if (curve.losses.empty()) return mismatch(curve.name + " has no losses");
  for (std::size_t i = 0; i < curve.losses.size(); ++i)
    if (!std::isfinite(curve.losses[i]))
      return mismatch(
          fmt::format("{}: the loss of step {} is {}", curve.name, i + 1, curve.losses[i]));
  const auto [least, greatest] = std::minmax_element(curve.losses.begin(), curve.losses.end());
  if (difference(*least, *greatest) < kLeastChange)
    return mismatch(
        fmt::format("{}: the loss stays at {}: nothing was learned", curve.name, *least));
  return {};
}

}  // namespace

double tolerance_of(const std::string& device, const std::string& precision) {
  constexpr double kOnGpu = 1e-3;
  constexpr double kBfloat16 = 2e-2;
  if (precision != "float32") return kBfloat16;
  return device == "cpu" ? kTolerance : kOnGpu;
}

Result<double> agreement(const Curve& mine, const std::vector<Curve>& others, double tolerance) {
  TALLY_TRY(meaningful(mine));
  double largest = 0;
  for (const Curve& other : others) {
    TALLY_TRY(meaningful(other));
    if (other.losses.size() != mine.losses.size())
      return mismatch(fmt::format("{} has {} losses, {} has {}", mine.name, mine.losses.size(),
                                  other.name, other.losses.size()));
    for (std::size_t i = 0; i < mine.losses.size(); ++i) {
      const double apart = difference(mine.losses[i], other.losses[i]);
      if (apart > tolerance)
        return mismatch(
            fmt::format("at step {} the loss of {} is {:.9g}, that of {} {:.9g}: {:.1e} apart",
                        i + 1, mine.name, mine.losses[i], other.name, other.losses[i], apart));
      largest = std::max(largest, apart);
    }
  }
  return largest;
}

std::vector<Result<double>> judge(const std::vector<Curve>& curves, double tolerance) {
  // agreeing[i]: the curves that agree with curve i, without itself.
  std::vector<std::vector<Curve>> agreeing(curves.size());
  for (std::size_t i = 0; i < curves.size(); ++i)
    for (std::size_t j = 0; j < curves.size(); ++j)
      if (i != j && agreement(curves[i], {curves[j]}, tolerance)) agreeing[i].push_back(curves[j]);
  const auto most =
      std::max_element(agreeing.begin(), agreeing.end(),
                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const auto reference = static_cast<std::size_t>(most - agreeing.begin());
  std::vector<Result<double>> verdicts;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    if (curves.size() == 1) {
      verdicts.emplace_back(mismatch("there are no losses to compare with"));
    } else if (i != reference) {
      verdicts.push_back(agreement(curves[i], {curves[reference]}, tolerance));
    } else if (most->empty()) {
      verdicts.push_back(agreement(curves[i], {curves[i == 0 ? 1 : 0]}, tolerance));
    } else {
      verdicts.push_back(agreement(curves[i], *most, tolerance));
    }
  }
  return verdicts;
}

}  // namespace tally::bench::train
