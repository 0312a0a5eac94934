#pragma once
#include <optional>

#include "base/clock.h"
#include "base/mutex.h"
#include "group/reporter.h"

namespace tally::collective {

// A rank that has not met the others yet: all that it has to say is since when, and at last why
// not. Threads: any.
class JoiningRank final : public group::Watched {
 public:
  group::Report report() const override {
    group::Report report;
    report.joining = since_;
    MutexLock lock(mutex_);
    report.failure = failure_;
    return report;
  }
  group::Trace trace() const override { return {}; }
  std::string stack() const override { return {}; }
  // Told again of whoever is lost when it has joined.
  void lost(const group::LostRanks& ranks) override { (void)ranks; }

  void failed(const Error& error) {
    MutexLock lock(mutex_);
    failure_ = error;
  }

 private:
  const TimePoint since_ = SteadyClock().now();
  mutable Mutex mutex_;
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);
};

}  // namespace tally::collective
