#include "collective/watched_rank.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/clock.h"

namespace tally::collective {
namespace {

using group::Report;
using group::ReportedOperation;

// The time limit for taking a stack; no heartbeat is sent meanwhile.
constexpr Duration kStackTime = std::chrono::milliseconds(500);

std::uint64_t resident_bytes() {
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// One communicator at the moment of a report.
struct View {
  std::uint32_t channel;
  const std::vector<Rank>& members;
  const RecorderSnapshot& snapshot;
};

std::vector<Rank> job_ranks(const View& view, const std::vector<Rank>& ranks) {
  std::vector<Rank> result;
  for (const Rank rank : ranks)
    if (rank >= 0 && static_cast<std::size_t>(rank) < view.members.size())
      result.push_back(view.members[static_cast<std::size_t>(rank)]);
  return result;
}

ReportedOperation reported(const View& view, const OperationRecord& record) {
  ReportedOperation operation{.communicator = view.snapshot.name,
                              .channel = view.channel,
                              .record = record,
                              .members = {},
                              .waits_for = {}};
  // The world has all ranks: its members need not be listed.
  if (view.channel != 0) operation.members = view.members;
  if (record.stage != OperationRecord::Stage::kRunning) return operation;
  operation.waits_for =
      job_ranks(view, record.point() ? std::vector<Rank>{record.root} : view.snapshot.awaited);
  return operation;
}

void add(Report& report, const View& view) {
  report.operations += view.snapshot.begun;
  report.positions.push_back({.communicator = view.snapshot.name,
                              .channel = view.channel,
                              .next_collective = view.snapshot.next_collective});
  for (const OperationRecord& record : view.snapshot.operations) {
    if (record.stage == OperationRecord::Stage::kRunning) {
      if (!report.current || record.started < report.current->record.started)
        report.current = reported(view, record);
    } else if (!report.last || record.ended > report.last->record.ended) {
      report.last = reported(view, record);
    }
  }
}

}  // namespace

WatchedRank::WatchedRank(std::shared_ptr<Watchable> rank, OnLost on_lost)
    : rank_(std::move(rank)), on_lost_(std::move(on_lost)), joined_(SteadyClock().now()) {}

Report WatchedRank::report() const {
  Report report{.step = rank_->steps.load(std::memory_order_relaxed),
                .samples = rank_->samples.load(std::memory_order_relaxed),
                .memory_bytes = resident_bytes(),
                .joined = joined_,
                .figures = rank_->recorder->figures()};
  rank_->registry.for_each([&](std::uint32_t channel, const Registry::Entry& entry) {
    const RecorderSnapshot snapshot = entry.recorder->snapshot();
    add(report, {channel, *entry.members, snapshot});
    if (report.failure) return;
    const auto failure = entry.failure();
    if (!failure || failure->code == ErrorCode::kClosed) return;
    // A rank that has lost a peer has failed once an operation needs the peer: with parameter
    // servers none does, and the rank goes on.
    const bool is_needed = std::any_of(snapshot.operations.begin(), snapshot.operations.end(),
                                       [](const OperationRecord& record) {
                                         return record.stage != OperationRecord::Stage::kDone;
                                       });
    if (is_needed || failure->code != ErrorCode::kPeerLost) report.failure = failure;
  });
  // Other ranks most likely wait in the world or in the latest communicator.
  if (report.positions.size() > group::kMaxPositions)
    report.positions.erase(
        report.positions.begin() + 1,
        report.positions.end() - static_cast<std::ptrdiff_t>(group::kMaxPositions - 1));
  return report;
}

group::Trace WatchedRank::trace() const {
  group::Trace trace{.phases = rank_->recorder->phases()};
  rank_->registry.for_each([&trace](std::uint32_t, const Registry::Entry& entry) {
    if (trace.communicators.size() < group::kMaxPositions)
      trace.communicators.push_back(entry.recorder->snapshot());
  });
  return trace;
}

std::string WatchedRank::stack() const {
  return stacks_.of_thread(rank_->issuer.load(std::memory_order_relaxed), kStackTime);
}

}  // namespace tally::collective
