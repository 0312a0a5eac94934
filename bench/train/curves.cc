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

Result<double> agreement(const Curve& mine, const std::vector<Curve>& others) {
  TALLY_TRY(meaningful(mine));
  double largest = 0;
  for (const Curve& other : others) {
    TALLY_TRY(meaningful(other));
    if (other.losses.size() != mine.losses.size())
      return mismatch(fmt::format("{} has {} losses, {} has {}", mine.name, mine.losses.size(),
                                  other.name, other.losses.size()));
    for (std::size_t i = 0; i < mine.losses.size(); ++i) {
      const double apart = difference(mine.losses[i], other.losses[i]);
      if (apart > kTolerance)
        return mismatch(
            fmt::format("at step {} the loss of {} is {:.9g}, that of {} {:.9g}: {:.1e} apart",
                        i + 1, mine.name, mine.losses[i], other.name, other.losses[i], apart));
      largest = std::max(largest, apart);
    }
  }
  return largest;
}

}  // namespace tally::bench::train
