#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/stack_capture.h"
#include "collective/watchable.h"
#include "group/reporter.h"

namespace tally::collective {

// A joined rank: reports its communicators to the coordinator and passes lost ranks to them.
class WatchedRank final : public group::Watched {
 public:
  using OnLost = std::function<void(const group::LostRanks&)>;

  // The communicators share `rank` and may be destroyed first. `on_lost` ends operations with the
  // lost ranks; it is called on the Reporter's thread.
  WatchedRank(std::shared_ptr<Watchable> rank, OnLost on_lost);

  group::Report report() const override;
  group::Trace trace() const override;
  std::string stack() const override;
  void lost(const group::LostRanks& ranks) override { on_lost_(ranks); }

 private:
  const std::shared_ptr<Watchable> rank_;
  const OnLost on_lost_;
  const TimePoint joined_;
  const StackCapture stacks_;
};

// A rank that is joining: it reports when it began, and in the end why it failed. Threads: any.
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
  // The coordinator repeats the lost ranks once the rank has joined.
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
