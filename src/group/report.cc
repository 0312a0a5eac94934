#include "group/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "group/bodies.h"
#include "wire/fields.h"

namespace tally::group {

using wire::FieldsOf;

TimePoint Report::since() const {
  if (joining) return *joining;
  if (current) return current->record.started;
  return last ? last->record.ended : joined;
}

template <typename Fields>
void rank_field(Fields& f, FieldsOf<Fields, Rank>& rank) {
  f.number(rank);
  f.check(rank >= 0 && rank < kMaxRanks, "a rank that is not possible");
}

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
}

void write(wire::Writer& writer, const Report& report) { wire::write_fields(writer, report); }
Result<Report> read_report(wire::Reader& reader) { return wire::read_fields<Report>(reader); }
void write(wire::Writer& writer, const Trace& trace) { wire::write_fields(writer, trace); }
Result<Trace> read_trace(wire::Reader& reader) { return wire::read_fields<Trace>(reader); }

std::string ranks_text(const std::vector<Rank>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

std::string seconds_text(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds >= 120) {
    const auto whole = static_cast<std::int64_t>(seconds);
    return fmt::format("{} min {} s", whole / 60, whole % 60);
  }
  if (seconds < 0.0995) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.1f} s", seconds);
}

}  // namespace tally::group
