#pragma once
#include <functional>
#include <memory>

#include "base/stack_capture.h"
#include "collective/watchable.h"
#include "group/reporter.h"

namespace tally::collective {

// What a rank's communicators have to say to the coordinator, and to hear from it.
class WatchedRank final : public group::Watched {
 public:
  using OnLost = std::function<void(const group::LostRanks&)>;

  // `rank` is shared with the communicators, which may go first. `on_lost` ends operations with the
  // lost; it is called on the Reporter's thread.
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

}  // namespace tally::collective
