#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tally/communicator.h"

namespace tally::metrics {

// The last operations of one rank on one communicator, for a person to read when something hangs.
// Threads: one writes; any may read meanwhile and sees each operation either old or new in its parts.
class Recorder {
 public:
  static constexpr std::size_t kCapacity = 256;

  Recorder(std::string name, Rank rank, int ranks);

  // The number that end() wants back.
  std::uint64_t begin(std::uint32_t sequence, const Request& request, Algorithm algorithm,
                      TimePoint now);
  void end(std::uint64_t index, TimePoint now, const Result<void>& outcome);
  // Who is waited for now; kept until the next begin().
  void awaiting(std::span<const Rank> ranks);

  // One line per operation, oldest first; the last one tells who has arrived and who has not.
  std::string text(TimePoint now) const;

 private:
  enum class Stage : std::uint32_t { kEmpty, kRunning, kDone, kFailed };
  struct Entry {
    std::atomic<std::uint32_t> sequence{0};
    std::atomic<Stage> stage{Stage::kEmpty};
    // Operation, type, reduce operation and algorithm, one byte each; the root above them.
    std::atomic<std::uint64_t> what{0};
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::int64_t> started{0};
    std::atomic<std::int64_t> ended{0};
  };
  std::string describe(const Entry& entry, TimePoint now) const;

  const std::string name_;
  const Rank rank_;
  const int ranks_;
  std::array<Entry, kCapacity> entries_;
  std::atomic<std::uint64_t> begun_{0};
  std::vector<std::atomic<bool>> awaited_;
  bool waited_ = false;  // awaiting() was called since begin()
};

// "allreduce sum of 1000 float32 by ring".
std::string describe(Operation operation, std::uint64_t count, DataType type, ReduceOp op,
                     Algorithm algorithm, Rank root);

}  // namespace tally::metrics
