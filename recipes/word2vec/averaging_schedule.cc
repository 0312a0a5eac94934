#include "recipes/word2vec/averaging_schedule.h"

#include <algorithm>

#include "base/check.h"

namespace tally::word2vec {
namespace {

// Words of a worker before the first round, which measures the time.
constexpr double kFirstWords = 20000;
// The distance between rounds changes by at most this factor, so that one odd measurement has
// little effect.
constexpr double kMostChange = 4;

double share_of(double words, std::uint64_t longest) {
  return words / static_cast<double>(std::max<std::uint64_t>(longest, 1));
}

}  // namespace

AveragingSchedule::AveragingSchedule(const UpdateRule& rule, std::uint64_t longest) : rule_(rule) {
  const bool local = rule.kind == UpdateRule::Kind::kLocal;
  next_ = std::min(1.0, share_of(local ? static_cast<double>(rule.words) : kFirstWords, longest));
}

void AveragingSchedule::advance(double seconds) {
  TALLY_CHECK(!is_over_);
  if (next_ >= 1) {
    is_over_ = true;
    return;
  }
  const double last = next_ - before_;
  double step = last;
  if (rule_.kind == UpdateRule::Kind::kAverage) {
    const double wanted = std::chrono::duration<double>(rule_.period).count();
    const double change = seconds > 0 ? wanted / seconds : kMostChange;
    step = last * std::clamp(change, 1 / kMostChange, kMostChange);
  }
  before_ = next_;
  // Avoids a last round shortly after another one.
  next_ = next_ + 1.5 * step >= 1 ? 1 : next_ + step;
}

}  // namespace tally::word2vec
