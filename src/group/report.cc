#include "group/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "group/bodies.h"
#include "wire/error_body.h"

namespace tally::group {
namespace {


Error corrupt(std::string_view what) {
  return {.code = ErrorCode::kCorrupt, .message = fmt::format("a report with {}", what)};
}

std::string_view cut(const std::string& text) {
  return std::string_view(text).substr(0, kMaxNameBytes);
}

void write_time(wire::Writer& writer, std::chrono::nanoseconds time) {
  writer.u64(static_cast<std::uint64_t>(time.count()));
}

Result<std::chrono::nanoseconds> read_time(wire::Reader& reader) {
  // Far enough for any clock, and differences of two stay within bounds.
  constexpr auto kMost = std::int64_t{1} << 61;
  TALLY_TRY(const std::uint64_t bits, reader.u64());
  const auto value = static_cast<std::int64_t>(bits);
  if (value > kMost || value < -kMost) return corrupt("an impossible time");
  return std::chrono::nanoseconds(value);
}

template <typename Enum>
Result<Enum> read_enum(wire::Reader& reader, Enum last) {
  TALLY_TRY(const std::uint8_t value, reader.u8());
  if (value > static_cast<std::uint8_t>(last)) return corrupt("an unknown kind");
  return static_cast<Enum>(value);
}

Result<bool> read_flag(wire::Reader& reader) {
  TALLY_TRY(const std::uint8_t value, reader.u8());
  if (value > 1) return corrupt("a flag that is neither yes nor no");
  return value == 1;
}

void write(wire::Writer& writer, const OperationRecord& record) {
  writer.u32(record.sequence);
  writer.u8(static_cast<std::uint8_t>(record.operation));
  writer.u8(static_cast<std::uint8_t>(record.type));
  writer.u8(static_cast<std::uint8_t>(record.reduce_op));
  writer.u8(static_cast<std::uint8_t>(record.algorithm));
  writer.i32(record.root);
  writer.u64(record.count);
  writer.u8(static_cast<std::uint8_t>(record.stage));
  write_time(writer, record.started);
  write_time(writer, record.ended);
}

Result<OperationRecord> read_record(wire::Reader& reader) {
  OperationRecord record;
  TALLY_TRY(record.sequence, reader.u32());
  TALLY_TRY(record.operation, read_enum(reader, Operation::kReceive));
  TALLY_TRY(record.type, read_enum(reader, DataType::kInt64));
  TALLY_TRY(record.reduce_op, read_enum(reader, ReduceOp::kProduct));
  TALLY_TRY(record.algorithm, read_enum(reader, Algorithm::kPairwise));
  TALLY_TRY(record.root, reader.i32());
  TALLY_TRY(record.count, reader.u64());
  TALLY_TRY(record.stage, read_enum(reader, OperationRecord::Stage::kFailed));
  TALLY_TRY(record.started, read_time(reader));
  TALLY_TRY(record.ended, read_time(reader));
  return record;
}

void write(wire::Writer& writer, const std::optional<ReportedOperation>& operation) {
  writer.u8(operation ? 1 : 0);
  if (!operation) return;
  writer.string(cut(operation->communicator));
  writer.u32(operation->channel);
  write(writer, operation->record);
  write_ranks(writer, operation->members);
  write_ranks(writer, operation->waits_for);
}

Result<std::optional<ReportedOperation>> read_operation(wire::Reader& reader) {
  TALLY_TRY(const bool there, read_flag(reader));
  if (!there) return std::optional<ReportedOperation>();
  ReportedOperation operation;
  TALLY_TRY(operation.communicator, reader.string(kMaxNameBytes));
  TALLY_TRY(operation.channel, reader.u32());
  TALLY_TRY(operation.record, read_record(reader));
  TALLY_TRY(operation.members, read_ranks(reader));
  TALLY_TRY(operation.waits_for, read_ranks(reader));
  return std::optional(std::move(operation));
}

void write(wire::Writer& writer, const RecorderSnapshot& snapshot) {
  writer.string(cut(snapshot.name));
  writer.i32(snapshot.rank);
  writer.i32(snapshot.ranks);
  writer.u64(snapshot.begun);
  writer.u32(snapshot.next_collective);
  writer.u32(static_cast<std::uint32_t>(snapshot.operations.size()));
  for (const OperationRecord& record : snapshot.operations) write(writer, record);
  write_ranks(writer, snapshot.awaited);
}

Result<RecorderSnapshot> read_snapshot(wire::Reader& reader) {
  RecorderSnapshot snapshot;
  TALLY_TRY(snapshot.name, reader.string(kMaxNameBytes));
  TALLY_TRY(snapshot.rank, reader.i32());
  TALLY_TRY(snapshot.ranks, reader.i32());
  TALLY_TRY(snapshot.begun, reader.u64());
  TALLY_TRY(snapshot.next_collective, reader.u32());
  TALLY_TRY(const std::uint32_t count, reader.u32());
  if (count > Recorder::kCapacity) return corrupt("too many operations");
  for (std::uint32_t i = 0; i < count; ++i) {
    TALLY_TRY(const OperationRecord record, read_record(reader));
    snapshot.operations.push_back(record);
  }
  TALLY_TRY(snapshot.awaited, read_ranks(reader));
  return snapshot;
}

void write(wire::Writer& writer, const std::optional<Error>& failure) {
  writer.u8(failure ? 1 : 0);
  if (!failure) return;
  const std::vector<std::byte> body = wire::encode_error(*failure);
  writer.u32(static_cast<std::uint32_t>(body.size()));
  writer.bytes(body);
}

Result<std::optional<Error>> read_failure(wire::Reader& reader) {
  TALLY_TRY(const bool there, read_flag(reader));
  if (!there) return std::optional<Error>();
  TALLY_TRY(const std::uint32_t bytes, reader.u32());
  TALLY_TRY(const auto body, reader.bytes(bytes));
  Error failure;
  TALLY_TRY(wire::decode_error(body, &failure));
  return std::optional(std::move(failure));
}

}  // namespace

TimePoint Report::since() const {
  if (joining) return *joining;
  if (current) return current->record.started;
  return last ? last->record.ended : joined;
}

void write_ranks(wire::Writer& writer, const std::vector<Rank>& ranks) {
  const std::size_t count = std::min<std::size_t>(ranks.size(), kMaxRanks);
  writer.u32(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) writer.i32(ranks[i]);
}

Result<std::vector<Rank>> read_ranks(wire::Reader& reader) {
  TALLY_TRY(const std::uint32_t count, reader.u32());
  if (count > static_cast<std::uint32_t>(kMaxRanks)) return corrupt("too many ranks");
  std::vector<Rank> ranks;
  for (std::uint32_t i = 0; i < count; ++i) {
    TALLY_TRY(const Rank rank, reader.i32());
    if (rank < 0 || rank >= kMaxRanks) return corrupt("a rank that cannot be");
    ranks.push_back(rank);
  }
  return ranks;
}

void write(wire::Writer& writer, const Report& report) {
  writer.i32(report.rank);
  writer.u32(report.generation);
  writer.u64(static_cast<std::uint64_t>(report.pid));
  writer.string(cut(report.host));
  write_time(writer, report.at);
  write_time(writer, report.clock_offset);
  writer.u64(report.step);
  writer.u64(report.samples);
  writer.u64(report.memory_bytes);
  writer.u64(report.operations);
  write_time(writer, report.joined);
  writer.u8(report.joining ? 1 : 0);
  if (report.joining) write_time(writer, *report.joining);
  write(writer, report.current);
  write(writer, report.last);
  const std::size_t positions = std::min(report.positions.size(), kMaxPositions);
  writer.u8(static_cast<std::uint8_t>(positions));
  for (std::size_t i = 0; i < positions; ++i) {
    writer.string(cut(report.positions[i].communicator));
    writer.u32(report.positions[i].channel);
    writer.u32(report.positions[i].next_collective);
  }
  write(writer, report.failure);
}

Result<Report> read_report(wire::Reader& reader) {
  Report report;
  TALLY_TRY(report.rank, reader.i32());
  if (report.rank < 0 || report.rank >= kMaxRanks) return corrupt("a rank that cannot be");
  TALLY_TRY(report.generation, reader.u32());
  TALLY_TRY(const std::uint64_t pid, reader.u64());
  report.pid = static_cast<std::int64_t>(pid);
  TALLY_TRY(report.host, reader.string(kMaxNameBytes));
  TALLY_TRY(report.at, read_time(reader));
  TALLY_TRY(report.clock_offset, read_time(reader));
  TALLY_TRY(report.step, reader.u64());
  TALLY_TRY(report.samples, reader.u64());
  TALLY_TRY(report.memory_bytes, reader.u64());
  TALLY_TRY(report.operations, reader.u64());
  TALLY_TRY(report.joined, read_time(reader));
  TALLY_TRY(const bool joining, read_flag(reader));
  if (joining) {
    TALLY_TRY(report.joining, read_time(reader));
  }
  TALLY_TRY(report.current, read_operation(reader));
  TALLY_TRY(report.last, read_operation(reader));
  TALLY_TRY(const std::uint8_t positions, reader.u8());
  if (positions > kMaxPositions) return corrupt("too many communicators");
  for (int i = 0; i < positions; ++i) {
    Position position;
    TALLY_TRY(position.communicator, reader.string(kMaxNameBytes));
    TALLY_TRY(position.channel, reader.u32());
    TALLY_TRY(position.next_collective, reader.u32());
    report.positions.push_back(std::move(position));
  }
  TALLY_TRY(report.failure, read_failure(reader));
  return report;
}

void write(wire::Writer& writer, const Trace& trace) {
  writer.i32(trace.rank);
  write_time(writer, trace.clock_offset);
  const std::size_t count = std::min(trace.communicators.size(), kMaxPositions);
  writer.u8(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) write(writer, trace.communicators[i]);
}

Result<Trace> read_trace(wire::Reader& reader) {
  Trace trace;
  TALLY_TRY(trace.rank, reader.i32());
  if (trace.rank < 0 || trace.rank >= kMaxRanks) return corrupt("a rank that cannot be");
  TALLY_TRY(trace.clock_offset, read_time(reader));
  TALLY_TRY(const std::uint8_t count, reader.u8());
  if (count > kMaxPositions) return corrupt("too many communicators");
  for (int i = 0; i < count; ++i) {
    TALLY_TRY(RecorderSnapshot snapshot, read_snapshot(reader));
    trace.communicators.push_back(std::move(snapshot));
  }
  return trace;
}

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
