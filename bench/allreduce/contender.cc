#include "bench/allreduce/contender.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/errors.h"
#include "bench/allreduce/values.h"
#include "bench/common/statistics.h"

namespace tally::bench {
namespace {

// Smaller calls are so short that batches of them are timed.
constexpr std::size_t kBatchBelowBytes = 64 << 10;
constexpr double kBatchMicroseconds = 100;
constexpr int kProbeBatches = 5;
// Limit for rank 0's answer, which must fit one atomic write to a pipe.
constexpr int kMaxBatches = 250;
constexpr int kMinBatches = 3;

struct Effort {
  int batches = 0;
  int calls = 0;  // in each batch
};

Effort effort_for(std::size_t bytes, double call_us, Duration time, int ranks) {
  const double slice_us = std::chrono::duration<double, std::micro>(time).count();
  const int most_calls = calls_before_overflow(ranks) - kWarmUpCalls;
  Effort effort{.calls = 1};
  if (bytes < kBatchBelowBytes) {
    effort.calls =
        static_cast<int>(std::clamp<double>(kBatchMicroseconds / call_us, 1, most_calls));
  }
  effort.batches = static_cast<int>(
      std::clamp<double>(slice_us / (call_us * effort.calls), kMinBatches, kMaxBatches));
  return effort;
}

class WorkerContender final : public Contender {
 public:
  WorkerContender(std::unique_ptr<WorkerGroup> group, Duration command_timeout)
      : group_(std::move(group)),
        facts_{group_->launch().contender, group_->launch().transport, group_->version()},
        command_timeout_(command_timeout) {}

  const ContenderFacts& facts() const override { return facts_; }

  Result<void> check(std::size_t bytes) override {
    TALLY_TRY(group_->command(fmt::format("check {}", bytes), deadline()));
    return {};
  }

  Result<Answer> measure(std::size_t bytes, Duration time) override {
    if (!call_us_.contains(bytes)) TALLY_TRY(run(bytes, {.batches = kProbeBatches, .calls = 1}));
    return run(bytes, effort_for(bytes, call_us_[bytes], time, group_->launch().ranks));
  }

 private:
  Deadline deadline() const { return SteadyClock().after(command_timeout_); }

  Result<Answer> run(std::size_t bytes, const Effort& effort) {
    TALLY_TRY(Answer answer,
              group_->command(fmt::format("run {} {} {}", bytes, effort.batches, effort.calls),
                              deadline()));
    if (answer.samples_us.empty()) return corrupt("rank 0 sent no samples");
    answer.calls = long{effort.batches} * effort.calls;
    call_us_[bytes] = std::max(0.01, median(answer.samples_us));
    return answer;
  }

  std::unique_ptr<WorkerGroup> group_;
  const ContenderFacts facts_;
  Duration command_timeout_;
  std::map<std::size_t, double> call_us_;  // by size, from the last slice
};

}  // namespace

std::unique_ptr<Contender> make_contender(std::unique_ptr<WorkerGroup> group,
                                          Duration command_timeout) {
  return std::make_unique<WorkerContender>(std::move(group), command_timeout);
}

}  // namespace tally::bench
