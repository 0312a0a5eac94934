#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/recorder.h"
#include "base/step_recorder.h"
#include "group/bodies.h"
#include "tally/deadline.h"
#include "tally/error.h"
#include "wire/fields.h"

namespace tally::group {

// Limits of the fields of a report.
inline constexpr std::size_t kMaxNameBytes = 256;
inline constexpr std::size_t kMaxPositions = 16;

// An operation on one of a rank's communicators. Ranks are the job's.
struct ReportedOperation {
  std::string communicator;
  std::uint32_t channel = 0;  // with the name, identifies the communicator
  OperationRecord record;
  std::vector<Rank> members;    // of the communicator; empty: all ranks of the job
  std::vector<Rank> waits_for;  // as far as the rank knows

  friend bool operator==(const ReportedOperation&, const ReportedOperation&) = default;
};

// The progress of a rank on one communicator.
struct Position {
  std::string communicator;
  std::uint32_t channel = 0;
  std::uint32_t next_collective = 0;  // the rank has entered all collectives below this number

  friend bool operator==(const Position&, const Position&) = default;
};

// The heartbeat of a rank. Times are on the rank's own steady clock.
struct Report {
  Rank rank = 0;
  std::uint32_t generation = 1;
  std::int64_t pid = 0;
  std::string host;  // its name, for people
  TimePoint at{};    // when it was made
  // Coordinator's clock minus the rank's, as measured by the rank.
  Duration clock_offset{};
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t operations = 0;
  TimePoint joined{};
  std::vector<Figure> figures;       // of the training
  std::optional<TimePoint> joining;  // when it began to join; none: it has joined
  // The oldest operation under way; none: the rank computes.
  std::optional<ReportedOperation> current;
  // The operation that ended last, with or without an error.
  std::optional<ReportedOperation> last;
  std::vector<Position> positions;
  std::optional<Error> failure;  // the first failure of a communicator

  // The start of its current activity: joining, computing, or an operation.
  TimePoint since() const;
};

template <typename Fields>
void ranks_field(Fields& f, FieldsOf<Fields, std::vector<Rank>>& ranks) {
  f.list(ranks, kMaxRanks, [&f](auto& rank) { rank_field(f, rank); });
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, OperationRecord>& record) {
  f.number(record.sequence);
  f.choice(record.operation, Operation::kReceive);
  f.choice(record.type, DataType::kInt64);
  f.choice(record.reduce_op, ReduceOp::kProduct);
  f.choice(record.algorithm, Algorithm::kPairwise);
  f.number(record.root);
  f.number(record.count);
  f.choice(record.stage, OperationRecord::Stage::kFailed);
  f.time(record.started);
  f.time(record.ended);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, std::optional<ReportedOperation>>& reported) {
  f.optional(reported, [&f](auto& operation) {
    f.clipped(operation.communicator, kMaxNameBytes);
    f.number(operation.channel);
    fields(f, operation.record);
    ranks_field(f, operation.members);
    ranks_field(f, operation.waits_for);
  });
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Report>& report) {
  rank_field(f, report.rank);
  f.number(report.generation);
  f.number(report.pid);
  f.clipped(report.host, kMaxNameBytes);
  f.time(report.at);
  f.time(report.clock_offset);
  f.number(report.step);
  f.number(report.samples);
  f.number(report.memory_bytes);
  f.number(report.operations);
  f.time(report.joined);
  f.template list<std::uint8_t>(report.figures, StepRecorder::kMaxFigures, [&f](auto& figure) {
    f.clipped(figure.name, kMaxNameBytes);
    f.real(figure.value);
  });
  f.optional(report.joining, [&f](auto& since) { f.time(since); });
  fields(f, report.current);
  fields(f, report.last);
  f.template list<std::uint8_t>(report.positions, kMaxPositions, [&f](auto& position) {
    f.clipped(position.communicator, kMaxNameBytes);
    f.number(position.channel);
    f.number(position.next_collective);
  });
  f.optional(report.failure, [&f](auto& failure) { f.error(failure); });
}

// The contents of all recorders of one rank, by communicator.
struct Trace {
  Rank rank = 0;
  Duration clock_offset{};  // as in Report
  std::vector<RecorderSnapshot> communicators;
  std::vector<Phase> phases;  // of the training
};

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Trace>& trace) {
  rank_field(f, trace.rank);
  f.time(trace.clock_offset);
  f.template list<std::uint8_t>(trace.communicators, kMaxPositions, [&f](auto& snapshot) {
    f.clipped(snapshot.name, kMaxNameBytes);
    f.number(snapshot.rank);
    f.number(snapshot.ranks);
    f.number(snapshot.begun);
    f.number(snapshot.next_collective);
    f.list(snapshot.operations, Recorder::kCapacity, [&f](auto& record) { fields(f, record); });
    ranks_field(f, snapshot.awaited);
  });
  f.list(trace.phases, StepRecorder::kMaxPhases, [&f](auto& phase) {
    f.clipped(phase.name, kMaxNameBytes);
    f.time(phase.started);
    f.time(phase.ended);
  });
}

// "rank 2" or "ranks 2, 3".
std::string ranks_text(const std::vector<Rank>& ranks);
// "10.2 s", "350 ms", "2 min 5 s".
std::string seconds_text(Duration duration);

}  // namespace tally::group
