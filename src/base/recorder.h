#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tally/communicator.h"

namespace tally {

// Properties of operations. A point operation is a send or a receive, which two ranks take part in;
// an operation with parts has one for each rank.
constexpr bool is_point(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kReceive;
}
constexpr bool reduces(Operation operation) {
  return operation == Operation::kAllreduce || operation == Operation::kReduceScatter ||
         operation == Operation::kReduce;
}
constexpr bool has_parts(Operation operation) {
  return operation == Operation::kReduceScatter || operation == Operation::kAllgather ||
         operation == Operation::kGather || operation == Operation::kScatter ||
         operation == Operation::kAllToAll;
}
constexpr bool has_root(Operation operation) {
  return operation != Operation::kBarrier && operation != Operation::kAllreduce &&
         operation != Operation::kReduceScatter && operation != Operation::kAllgather &&
         operation != Operation::kAllToAll;
}

// One recorded operation.
struct OperationRecord {
  enum class Stage : std::uint8_t { kRunning, kDone, kFailed };

  std::uint32_t sequence = 0;  // kSend, kReceive: the tag
  Operation operation = Operation::kBarrier;
  DataType type = DataType::kUInt8;
  ReduceOp reduce_op = ReduceOp::kSum;
  Algorithm algorithm = Algorithm::kAuto;
  Rank root = 0;
  std::uint64_t count = 0;
  Stage stage = Stage::kRunning;
  TimePoint started{};
  TimePoint ended{};  // zero while it runs

  bool point() const { return is_point(operation); }
  friend bool operator==(const OperationRecord&, const OperationRecord&) = default;
};

// The contents of a Recorder at one moment.
struct RecorderSnapshot {
  std::string name;  // of the communicator
  Rank rank = 0;     // in the communicator
  int ranks = 1;
  std::uint64_t begun = 0;                  // operations so far
  std::uint32_t next_collective = 0;        // one more than the number of the latest collective
  std::vector<OperationRecord> operations;  // oldest first
  std::vector<Rank> awaited;                // in the communicator; by the latest operation

  friend bool operator==(const RecorderSnapshot&, const RecorderSnapshot&) = default;
};

// Records the last operations of one rank on one communicator, for the diagnosis of hangs. Threads:
// one thread writes; any thread may read at the same time, and sees old and new fields mixed in an
// operation that is being overwritten.
class Recorder {
 public:
  static constexpr std::size_t kCapacity = 256;
  static constexpr std::size_t kTextLines = 32;  // of every rank, for a person to read

  Recorder(std::string name, Rank rank, int ranks);

  // Returns the index for end().
  std::uint64_t begin(std::uint32_t sequence, const Request& request, Algorithm algorithm,
                      TimePoint now);
  void end(std::uint64_t index, TimePoint now, const Result<void>& outcome);
  // Sets the ranks that the operation waits for; kept until the next begin().
  void awaiting(std::span<const Rank> ranks);

  // One line for each of the last kTextLines operations, oldest first; the last line lists the
  // ranks that have arrived and those that have not.
  std::string text(TimePoint now) const;
  // The operations as values.
  RecorderSnapshot snapshot() const;

 private:
  using Stage = OperationRecord::Stage;
  struct Entry {
    std::atomic<std::uint32_t> sequence{0};
    std::atomic<Stage> stage{Stage::kRunning};
    // Operation, type, reduce operation and algorithm, one byte each; the root in the upper half.
    std::atomic<std::uint64_t> what{0};
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::int64_t> started{0};
    std::atomic<std::int64_t> ended{0};
  };
  static OperationRecord read(const Entry& entry);
  std::string describe(const Entry& entry, TimePoint now) const;

  const std::string name_;
  const Rank rank_;
  const int ranks_;
  std::array<Entry, kCapacity> entries_;
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint32_t> next_collective_{0};
  std::vector<std::atomic<bool>> awaited_;
  bool waited_ = false;  // awaiting() was called since begin()
};

// "allreduce sum of 1000 float32 by ring".
std::string describe(Operation operation, std::uint64_t count, DataType type, ReduceOp op,
                     Algorithm algorithm, Rank root);
// "#17 allreduce sum of 1000 float32".
std::string describe(const OperationRecord& record);

}  // namespace tally
