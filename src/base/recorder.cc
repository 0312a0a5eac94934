#include "base/recorder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/part_counts.h"

namespace tally {
namespace {

std::uint64_t pack(const Request& request, Algorithm algorithm) {
  const auto byte = [](auto value, int position) {
    return static_cast<std::uint64_t>(value) << (8 * position);
  };
  return byte(request.operation, 0) | byte(request.type, 1) | byte(request.reduce_op, 2) |
         byte(algorithm, 3) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(request.root)) << 32;
}

double milliseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

}  // namespace

std::string describe(Operation operation, std::uint64_t count, DataType type, ReduceOp op,
                     Algorithm algorithm, Rank root) {
  std::string text(to_string(operation));
  if (reduces(operation)) text += fmt::format(" {}", to_string(op));
  if (const auto parts = unpack_counts(count)) {
    if (parts->sum) text += fmt::format(" of {} {}", *parts->sum, to_string(type));
    if (!parts->sum) text += fmt::format(" of {}", to_string(type));
    text += " in parts by rank";
    if (count != kCountsByRank) text += fmt::format(" (counts {:06x})", parts->hash);
  } else if (operation != Operation::kBarrier) {
    text += fmt::format(" of {} {}", count, to_string(type));
  }
  const bool to_root = operation == Operation::kReduce || operation == Operation::kGather ||
                       operation == Operation::kSend;
  if (has_root(operation)) text += fmt::format(" {} rank {}", to_root ? "to" : "from", root);
  if (algorithm != Algorithm::kAuto) text += fmt::format(" by {}", to_string(algorithm));
  return text;
}

std::string describe(const OperationRecord& record) {
  return fmt::format("#{} {}", record.sequence,
                     describe(record.operation, record.count, record.type, record.reduce_op,
                              Algorithm::kAuto, record.root));
}

Recorder::Recorder(std::string name, Rank rank, int ranks)
    : name_(std::move(name)),
      rank_(rank),
      ranks_(ranks),
      awaited_(static_cast<std::size_t>(ranks)) {}

std::uint64_t Recorder::begin(std::uint32_t sequence, const Request& request, Algorithm algorithm,
                              TimePoint now) {
  const std::uint64_t index = begun_.load(std::memory_order_relaxed);
  Entry& entry = entries_[index % kCapacity];
  entry.sequence.store(sequence, std::memory_order_relaxed);
  entry.what.store(pack(request, algorithm), std::memory_order_relaxed);
  entry.count.store(count_of(request), std::memory_order_relaxed);
  entry.started.store(now.count(), std::memory_order_relaxed);
  entry.stage.store(Stage::kRunning, std::memory_order_relaxed);
  if (!is_point(request.operation)) next_collective_.store(sequence + 1, std::memory_order_relaxed);
  begun_.store(index + 1, std::memory_order_release);
  if (waited_) awaiting({});
  waited_ = false;
  return index;
}

void Recorder::end(std::uint64_t index, TimePoint now, const Result<void>& outcome) {
  Entry& entry = entries_[index % kCapacity];
  entry.ended.store(now.count(), std::memory_order_relaxed);
  entry.stage.store(outcome.has_value() ? Stage::kDone : Stage::kFailed, std::memory_order_release);
}

void Recorder::awaiting(std::span<const Rank> ranks) {
  waited_ = true;
  for (auto& awaited : awaited_) awaited.store(false, std::memory_order_relaxed);
  for (const Rank rank : ranks)
    awaited_[static_cast<std::size_t>(rank)].store(true, std::memory_order_relaxed);
}

OperationRecord Recorder::read(const Entry& entry) {
  const Stage stage = entry.stage.load(std::memory_order_acquire);
  const std::uint64_t what = entry.what.load(std::memory_order_relaxed);
  const auto byte = [what](int position) {
    return static_cast<std::uint8_t>(what >> (8 * position));
  };
  OperationRecord record{.sequence = entry.sequence.load(std::memory_order_relaxed),
                         .operation = static_cast<Operation>(byte(0)),
                         .type = static_cast<DataType>(byte(1)),
                         .reduce_op = static_cast<ReduceOp>(byte(2)),
                         .algorithm = static_cast<Algorithm>(byte(3)),
                         .root = static_cast<Rank>(static_cast<std::uint32_t>(what >> 32)),
                         .count = entry.count.load(std::memory_order_relaxed),
                         .started = TimePoint(entry.started.load(std::memory_order_relaxed))};
  record.stage = stage;
  if (stage != Stage::kRunning)
    record.ended = TimePoint(entry.ended.load(std::memory_order_relaxed));
  return record;
}

std::string Recorder::describe(const Entry& entry, TimePoint now) const {
  const OperationRecord record = read(entry);
  std::string line = fmt::format("  #{} {}: ", record.sequence,
                                 tally::describe(record.operation, record.count, record.type,
                                                 record.reduce_op, record.algorithm, record.root));
  const std::int64_t started = record.started.count();
  const std::int64_t ended = record.ended.count();
  switch (record.stage) {
    case Stage::kDone:
      return line + fmt::format("done in {:.3f} ms, {:.3f} s ago", milliseconds(ended - started),
                                milliseconds(now.count() - ended) / 1e3);
    case Stage::kFailed:
      line += fmt::format("failed after {:.3f} ms", milliseconds(ended - started));
      break;
    case Stage::kRunning:
      line += fmt::format("running for {:.3f} ms", milliseconds(now.count() - started));
  }
  std::string arrived;
  std::string missing;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    const bool awaited = awaited_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed);
    std::string& list = awaited ? missing : arrived;
    list += fmt::format("{}{}", list.empty() ? "" : ",", rank);
  }
  return line +
         fmt::format("; arrived: {}; not arrived: {}", arrived, missing.empty() ? "-" : missing);
}

RecorderSnapshot Recorder::snapshot() const {
  const std::uint64_t begun = begun_.load(std::memory_order_acquire);
  RecorderSnapshot snapshot{.name = name_,
                            .rank = rank_,
                            .ranks = ranks_,
                            .begun = begun,
                            .next_collective = next_collective_.load(std::memory_order_relaxed)};
  const std::uint64_t count = std::min<std::uint64_t>(begun, kCapacity);
  const std::uint64_t first = begun - count;
  for (std::uint64_t index = first; index < begun; ++index)
    snapshot.operations.push_back(read(entries_[index % kCapacity]));
  // Operations that began meanwhile have overwritten the oldest.
  const std::uint64_t kept_from = begun_.load(std::memory_order_acquire) + 1;
  if (kept_from > first + kCapacity) {
    const std::uint64_t gone = std::min(kept_from - first - kCapacity, count);
    snapshot.operations.erase(snapshot.operations.begin(),
                              snapshot.operations.begin() + static_cast<std::ptrdiff_t>(gone));
  }
  for (Rank rank = 0; rank < ranks_; ++rank)
    if (awaited_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed))
      snapshot.awaited.push_back(rank);
  return snapshot;
}

std::string Recorder::text(TimePoint now) const {
  const std::uint64_t begun = begun_.load(std::memory_order_acquire);
  std::string text =
      fmt::format("{}, rank {} of {}: {} operations so far\n", name_, rank_, ranks_, begun);
  for (std::uint64_t index = begun > kTextLines ? begun - kTextLines : 0; index < begun; ++index)
    text += describe(entries_[index % kCapacity], now) + "\n";
  return text;
}

}  // namespace tally
