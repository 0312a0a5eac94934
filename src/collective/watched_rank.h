#pragma once
#include <memory>

#include "base/stack_capture.h"
#include "collective/context.h"
#include "group/reporter.h"

namespace tally::collective {

// What a rank's communicators have to say to the coordinator, and to hear from it.
class WatchedRank final : public group::Watched {
 public:
  explicit WatchedRank(std::shared_ptr<Context> context);

  group::Report report() const override;
  group::Trace trace() const override;
  std::string stack() const override;
  void lost(const group::LostRanks& ranks) override;

 private:
  const std::shared_ptr<Context> context_;  // shared with the communicators, which may go first
  const TimePoint joined_;
  const StackCapture stacks_;
};

}  // namespace tally::collective
