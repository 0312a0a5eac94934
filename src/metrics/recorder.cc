#include "metrics/recorder.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::metrics {
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
  switch (operation) {
    case Operation::kBarrier:
      break;
    case Operation::kAllreduce:
    case Operation::kReduceScatter:
      text += fmt::format(" {} of {} {}", to_string(op), count, to_string(type));
      break;
    case Operation::kReduce:
      text += fmt::format(" {} of {} {} to rank {}", to_string(op), count, to_string(type), root);
      break;
    case Operation::kAllgather:
    case Operation::kAllToAll:
      text += fmt::format(" of {} {}", count, to_string(type));
      break;
    case Operation::kBroadcast:
    case Operation::kScatter:
    case Operation::kReceive:
      text += fmt::format(" of {} {} from rank {}", count, to_string(type), root);
      break;
    case Operation::kGather:
    case Operation::kSend:
      text += fmt::format(" of {} {} to rank {}", count, to_string(type), root);
      break;
  }
  if (algorithm != Algorithm::kAuto) text += fmt::format(" by {}", to_string(algorithm));
  return text;
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
  entry.count.store(request.count, std::memory_order_relaxed);
  entry.started.store(now.count(), std::memory_order_relaxed);
  entry.stage.store(Stage::kRunning, std::memory_order_relaxed);
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

std::string Recorder::describe(const Entry& entry, TimePoint now) const {
  const std::uint64_t what = entry.what.load(std::memory_order_relaxed);
  const auto byte = [what](int position) {
    return static_cast<std::uint8_t>(what >> (8 * position));
  };
  const std::int64_t started = entry.started.load(std::memory_order_relaxed);
  std::string line = fmt::format(
      "  #{} {}: ", entry.sequence.load(std::memory_order_relaxed),
      metrics::describe(static_cast<Operation>(byte(0)),
                        entry.count.load(std::memory_order_relaxed), static_cast<DataType>(byte(1)),
                        static_cast<ReduceOp>(byte(2)), static_cast<Algorithm>(byte(3)),
                        static_cast<Rank>(static_cast<std::uint32_t>(what >> 32))));
  const std::int64_t ended = entry.ended.load(std::memory_order_relaxed);
  switch (entry.stage.load(std::memory_order_acquire)) {
    case Stage::kDone:
      return line + fmt::format("done in {:.3f} ms, {:.3f} s ago", milliseconds(ended - started),
                                milliseconds(now.count() - ended) / 1e3);
    case Stage::kFailed:
      line += fmt::format("failed after {:.3f} ms", milliseconds(ended - started));
      break;
    default:
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

std::string Recorder::text(TimePoint now) const {
  const std::uint64_t begun = begun_.load(std::memory_order_acquire);
  std::string text =
      fmt::format("{}, rank {} of {}: {} operations so far\n", name_, rank_, ranks_, begun);
  for (std::uint64_t index = begun > kCapacity ? begun - kCapacity : 0; index < begun; ++index)
    text += describe(entries_[index % kCapacity], now) + "\n";
  return text;
}

}  // namespace tally::metrics
