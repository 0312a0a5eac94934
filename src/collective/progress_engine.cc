#include "collective/progress_engine.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/log.h"
#include "collective/direct.h"

namespace tally::collective {
namespace {

// The period in which a blocked operation queries the state of its peers.
constexpr Duration kQueryPeriod = std::chrono::milliseconds(200);
// After the deadline the engine waits this long for answers, so that the error names the right
// rank.
constexpr Duration kAnswerTime = std::chrono::milliseconds(250);
// The data of a rank that leaves after all ranks have entered may arrive this much later.
constexpr Duration kLastDataTime = std::chrono::milliseconds(500);

Error departure_of(Rank rank) {
  return make_error(ErrorCode::kPeerLost, rank, "rank {} has left the job and is still needed",
                    rank);
}

}  // namespace

Result<void> ProgressEngine::run(RunningOperation& running) {
  int spins = 0;
  for (;;) {
    auto progress = running.task.advance();
    if (progress.has_value() && *progress == Progress::kComplete) return {};
    if (progress.has_value() && *progress == Progress::kMoved) {
      spins = 0;
      running.stalled = false;
      continue;
    }
    if (progress.has_value() && spins < context_.spins) {
      ++spins;
      spin_pause();
      continue;
    }
    StartedOperations* const started = context_.started.get();
    if (started != nullptr && progress.has_value() && started->advance()) continue;
    MutexLock lock(mailbox_.router().mutex);
    if (!progress.has_value()) {
      fail(progress.error());
      return mailbox_.failure();
    }
    diagnose(running);
    if (mailbox_.failed()) return mailbox_.failure();
    Deadline by = next_look(running);
    if (started != nullptr) by = earlier(by, started->diagnose());
    mailbox_.router().wait(by, [&running, started] {
      return running.task.ready() || (started != nullptr && started->ready());
    });
  }
}

Deadline ProgressEngine::next_look(const RunningOperation& running) const {
  const Deadline end = running.give_up ? Deadline::at(*running.give_up) : running.by;
  const Deadline look = earlier(end, Deadline::at(running.next_query));
  const Duration period = running.task.poll_period();
  return period == Duration::max() ? look : earlier(look, context_.clock->after(period));
}

void ProgressEngine::begin(RunningOperation& running) {
  if (running.begun || running.point) return;
  running.begun = true;
  mailbox_.begin(running.sequence, running.signature);
}

void ProgressEngine::finish(RunningOperation& running) {
  if (running.begun) mailbox_.finish();
}

void ProgressEngine::fail(const Error& error) {
  mailbox_.fail(error);
  mailbox_.router().progress();
  // Peers that do not know of the failure yet may still write to memory of this rank.
  if (context_.segment) context_.segment->stop_reuse();
}

std::vector<Rank> ProgressEngine::not_arrived(const RunningOperation& running,
                                              const std::vector<Rank>& awaited) {
  // Inside one host, and between two ranks, the awaited ranks are those that have not entered.
  if (running.task.all_entered() || running.point ||
      (area_ != nullptr && area_->members() == mailbox_.size()))
    return awaited;
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < mailbox_.size(); ++rank) {
    const bool entered =
        mailbox_.status()[static_cast<std::size_t>(rank)].entered > running.sequence;
    if (rank != mailbox_.self() && !entered) ranks.push_back(rank);
  }
  return ranks.empty() ? awaited : ranks;
}

std::optional<Rank> ProgressEngine::left_after_entry(RunningOperation& running, TimePoint now) {
  if (!running.task.all_entered()) return std::nullopt;
  for (Rank rank = 0; rank < mailbox_.size(); ++rank) {
    if (!mailbox_.has_departed(rank)) continue;
    if (!running.left_since) running.left_since = now;
    return now - *running.left_since < kLastDataTime ? std::nullopt : std::optional(rank);
  }
  return std::nullopt;
}

void ProgressEngine::query(RunningOperation& running, TimePoint now,
                           const std::vector<Rank>& awaited) {
  mailbox_.waits_for(awaited.empty() ? kNoRank : awaited.front());
  recorder_.awaiting(not_arrived(running, awaited));
  if (!running.stalled) {
    running.stalled = true;
    running.next_query = now + kQueryPeriod;
  } else if (now >= running.next_query) {
    mailbox_.ask();
    running.next_query = now + kQueryPeriod;
  }
}

Result<void> ProgressEngine::compare_status(const RunningOperation& running) {
  if (running.point) return {};
  for (Rank rank = 0; rank < mailbox_.size(); ++rank) {
    const PeerStatus& status = mailbox_.status()[static_cast<std::size_t>(rank)];
    if (!status.answered || !status.running || status.sequence != running.sequence ||
        rank == mailbox_.self() || status.signature == running.signature)
      continue;
    return make_error(ErrorCode::kMismatch, rank, "rank {} called {}, rank {} called {}",
                      mailbox_.self(), describe(running.signature), rank,
                      describe(status.signature));
  }
  return {};
}

bool ProgressEngine::all_answered() {
  for (const PeerStatus& status : mailbox_.status())
    if (!status.answered) return false;
  return true;
}

// The ranks to blame. Inside one host shared memory tells. Across a network: ranks that do not
// answer, first of all those that never entered; otherwise ranks that answer from another
// operation; otherwise the awaited ranks. If all ranks have entered: those that do not answer.
std::vector<Rank> ProgressEngine::to_blame(const RunningOperation& running,
                                           const std::vector<Rank>& awaited) {
  if (running.task.all_entered()) return silent_ranks();
  if (running.point || (area_ != nullptr && area_->members() == mailbox_.size())) return awaited;
  std::vector<Rank> never_came;
  std::vector<Rank> silent;
  std::vector<Rank> behind;
  for (Rank rank = 0; rank < mailbox_.size(); ++rank) {
    if (rank == mailbox_.self()) continue;
    const PeerStatus& status = mailbox_.status()[static_cast<std::size_t>(rank)];
    if (!status.answered) silent.push_back(rank);
    if (!status.answered && status.entered <= running.sequence) never_came.push_back(rank);
    if (status.answered && (!status.running || status.sequence < running.sequence))
      behind.push_back(rank);
  }
  for (const auto& ranks : {never_came, silent, behind})
    if (!ranks.empty()) return ranks;
  return awaited;
}

std::vector<Rank> ProgressEngine::silent_ranks() const {
  std::vector<Rank> silent;
  for (Rank rank = 0; rank < mailbox_.size(); ++rank)
    if (rank != mailbox_.self() && !mailbox_.status()[static_cast<std::size_t>(rank)].answered)
      silent.push_back(rank);
  return silent;
}

Error ProgressEngine::timeout(const RunningOperation& running, const std::vector<Rank>& awaited) {
  const std::vector<Rank> blamed = to_blame(running, awaited);
  if (blamed.empty())
    return make_error(ErrorCode::kTimeout,
                      "deadline passed in #{} {}: all ranks have entered it, and none is known to "
                      "delay it",
                      running.sequence, describe(running.signature));
  return {.code = ErrorCode::kTimeout,
          .peer = blamed.front(),
          .message = fmt::format("deadline passed in #{} {}: waiting for rank {}", running.sequence,
                                 describe(running.signature), fmt::join(blamed, ", "))};
}

void ProgressEngine::diagnose(RunningOperation& running) {
  // The rank has closed its job, for example while a checkpoint was written: nothing arrives.
  if (context_.left) return mailbox_.close();
  begin(running);
  const TimePoint now = context_.clock->now();
  const std::vector<Rank> awaited = running.task.awaited();
  query(running, now, awaited);
  for (const Rank rank : awaited) {
    if (!mailbox_.has_departed(rank)) continue;
    // In shared memory it may have done its part after the first look, and left.
    const std::vector<Rank> still = running.task.awaited();
    if (std::find(still.begin(), still.end(), rank) == still.end()) return;
    return fail(departure_of(rank));
  }
  if (const auto rank = left_after_entry(running, now)) return fail(departure_of(*rank));
  if (area_ != nullptr && !running.point) {
    const auto same =
        compare_notices(*area_, {.sequence = 2 * running.sequence, .signature = running.signature});
    if (!same.has_value()) return fail(same.error());
  }
  if (const auto same = compare_status(running); !same.has_value()) return fail(same.error());
  if (!running.by.passed(now)) return;
  if (!running.give_up) {
    mailbox_.ask();
    running.give_up = now + kAnswerTime;
  } else if (now >= *running.give_up || all_answered()) {
    const Error error = timeout(running, awaited);
    log_error(fmt::format("{}\n{}", to_string(error), recorder_.text(now)));
    fail(error);
  }
}

}  // namespace tally::collective
