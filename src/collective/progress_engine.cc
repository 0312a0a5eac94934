#include "collective/progress_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "collective/direct.h"

namespace tally::collective {
namespace {

// Peers that make somebody wait for longer are asked where they are, and again in this interval.
constexpr Duration kQueryPeriod = std::chrono::milliseconds(200);
// After the deadline answers are awaited for this long, so that the right rank is named.
constexpr Duration kAnswerTime = std::chrono::milliseconds(250);

}  // namespace

Result<void> Driver::run(Drive& drive) {
  int spins = 0;
  for (;;) {
    auto progress = drive.task.advance();
    if (progress.has_value() && *progress == Progress::kComplete) return {};
    if (progress.has_value() && *progress == Progress::kMoved) {
      spins = 0;
      drive.stalled = false;
      continue;
    }
    if (progress.has_value() && spins < context_.spins) {
      ++spins;
      spin_pause();
      continue;
    }
    MutexLock lock(mailbox_.room().mutex);
    if (!progress.has_value()) {
      fail(progress.error());
      return mailbox_.failure();
    }
    diagnose(drive);
    if (mailbox_.failed()) return mailbox_.failure();
    mailbox_.room().wait(next_look(drive), [&drive] { return drive.task.ready(); });
  }
}

Deadline Driver::next_look(const Drive& drive) const {
  const Deadline end = drive.give_up ? Deadline::at(*drive.give_up) : drive.by;
  return earlier(end, Deadline::at(drive.next_query));
}

void Driver::begin(Drive& drive) {
  if (drive.begun || drive.point) return;
  drive.begun = true;
  mailbox_.begin(drive.sequence, drive.signature);
}

void Driver::finish(Drive& drive) {
  if (drive.begun) mailbox_.finish();
}

void Driver::fail(const Error& error) {
  mailbox_.fail(error);
  mailbox_.room().progress();
  // Peers that have not heard of it yet may still write where this rank showed them memory.
  if (context_.segment) context_.segment->stop_reuse();
}

std::vector<Rank> Driver::not_arrived(const Drive& drive, const std::vector<Rank>& awaited) {
  // Inside one host, and between two ranks, whoever is waited for is whoever has not come.
  if (drive.point || (board_ != nullptr && board_->members() == mailbox_.size())) return awaited;
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < mailbox_.size(); ++rank) {
    const bool entered = mailbox_.status()[static_cast<std::size_t>(rank)].entered > drive.sequence;
    if (rank != mailbox_.self() && !entered) ranks.push_back(rank);
  }
  return ranks.empty() ? awaited : ranks;
}

void Driver::query(Drive& drive, TimePoint now, const std::vector<Rank>& awaited) {
  mailbox_.waits_for(awaited.empty() ? kNoRank : awaited.front());
  recorder_.awaiting(not_arrived(drive, awaited));
  if (!drive.stalled) {
    drive.stalled = true;
    drive.next_query = now + kQueryPeriod;
  } else if (now >= drive.next_query) {
    mailbox_.ask();
    drive.next_query = now + kQueryPeriod;
  }
}

Result<void> Driver::compare_status(const Drive& drive) {
  if (drive.point) return {};
  for (Rank rank = 0; rank < mailbox_.size(); ++rank) {
    const PeerStatus& status = mailbox_.status()[static_cast<std::size_t>(rank)];
    if (!status.answered || !status.running || status.sequence != drive.sequence ||
        rank == mailbox_.self() || status.signature == drive.signature)
      continue;
    return Error{
        .code = ErrorCode::kMismatch,
        .peer = rank,
        .message = fmt::format("rank {} called {}, rank {} called {}", mailbox_.self(),
                               describe(drive.signature), rank, describe(status.signature))};
  }
  return {};
}

bool Driver::all_answered() {
  for (const PeerStatus& status : mailbox_.status())
    if (!status.answered) return false;
  return true;
}

// Who is to blame. Inside one host that is seen in memory. Across a network: a rank that gives no
// answer, before all one that never came; else one that answers from elsewhere; else whoever is
// waited for.
std::vector<Rank> Driver::to_blame(const Drive& drive, const std::vector<Rank>& awaited) {
  if (drive.point || (board_ != nullptr && board_->members() == mailbox_.size())) return awaited;
  std::vector<Rank> never_came;
  std::vector<Rank> silent;
  std::vector<Rank> behind;
  for (Rank rank = 0; rank < mailbox_.size(); ++rank) {
    if (rank == mailbox_.self()) continue;
    const PeerStatus& status = mailbox_.status()[static_cast<std::size_t>(rank)];
    if (!status.answered) silent.push_back(rank);
    if (!status.answered && status.entered <= drive.sequence) never_came.push_back(rank);
    if (status.answered && (!status.running || status.sequence < drive.sequence))
      behind.push_back(rank);
  }
  for (const auto& ranks : {never_came, silent, behind})
    if (!ranks.empty()) return ranks;
  return awaited;
}

Error Driver::timeout(const Drive& drive, const std::vector<Rank>& awaited) {
  const std::vector<Rank> blamed = to_blame(drive, awaited);
  return {.code = ErrorCode::kTimeout,
          .peer = blamed.empty() ? kNoRank : blamed.front(),
          .message = fmt::format("deadline passed in #{} {}: waiting for rank {}", drive.sequence,
                                 describe(drive.signature), fmt::join(blamed, ", "))};
}

void Driver::diagnose(Drive& drive) {
  begin(drive);
  const TimePoint now = context_.clock->now();
  const std::vector<Rank> awaited = drive.task.awaited();
  query(drive, now, awaited);
  for (const Rank rank : awaited) {
    if (!mailbox_.has_departed(rank)) continue;
    return fail({.code = ErrorCode::kPeerLost,
                 .peer = rank,
                 .message = fmt::format("rank {} has left the job and is still needed", rank)});
  }
  if (board_ != nullptr && !drive.point) {
    const auto same =
        compare_notices(*board_, {.sequence = 2 * drive.sequence, .signature = drive.signature});
    if (!same.has_value()) return fail(same.error());
  }
  if (const auto same = compare_status(drive); !same.has_value()) return fail(same.error());
  if (!drive.by.passed(now)) return;
  if (!drive.give_up) {
    mailbox_.ask();
    drive.give_up = now + kAnswerTime;
  } else if (now >= *drive.give_up || all_answered()) {
    const Error error = timeout(drive, awaited);
    log_error(fmt::format("{}\n{}", to_string(error), recorder_.text(now)));
    fail(error);
  }
}

}  // namespace tally::collective
