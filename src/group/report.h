#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/recorder.h"
#include "tally/deadline.h"
#include "tally/error.h"
#include "wire/bytes.h"

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

void write(wire::Writer& writer, const Report& report);
// kCorrupt unless write() could have written it.
Result<Report> read_report(wire::Reader& reader);

// The contents of all recorders of one rank, by communicator.
struct Trace {
  Rank rank = 0;
  Duration clock_offset{};  // as in Report
  std::vector<RecorderSnapshot> communicators;
};

void write(wire::Writer& writer, const Trace& trace);
Result<Trace> read_trace(wire::Reader& reader);

// "rank 2" or "ranks 2, 3".
std::string ranks_text(const std::vector<Rank>& ranks);
// "10.2 s", "350 ms", "2 min 5 s".
std::string seconds_text(Duration duration);

}  // namespace tally::group
