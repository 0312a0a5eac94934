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

// Bounds of what a rank may say about itself.
inline constexpr std::size_t kMaxNameBytes = 256;
inline constexpr std::size_t kMaxPositions = 16;

// An operation on one of a rank's communicators. Ranks are the job's.
struct ReportedOperation {
  std::string communicator;
  std::uint32_t channel = 0;  // with the name: the same on all members, and on nobody else
  OperationRecord record;
  std::vector<Rank> members;    // of the communicator; empty: all ranks of the job
  std::vector<Rank> waits_for;  // as far as the rank knows

  friend bool operator==(const ReportedOperation&, const ReportedOperation&) = default;
};

// How far a rank has come on one communicator.
struct Position {
  std::string communicator;
  std::uint32_t channel = 0;
  std::uint32_t next_collective = 0;  // collectives below this number it has come to

  friend bool operator==(const Position&, const Position&) = default;
};

// What a rank says about itself in each heartbeat. Times are on the rank's own steady clock.
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
  std::optional<TimePoint> joining;  // since when it looks for the others; none: it has found them
  // The operation that it has been in for longest; none: it computes.
  std::optional<ReportedOperation> current;
  // The operation that ended last, well or not.
  std::optional<ReportedOperation> last;
  std::vector<Position> positions;
  std::optional<Error> failure;  // of a communicator: the first

  // Since when it joins, computes, or is in its current operation.
  TimePoint since() const;
};

void write(wire::Writer& writer, const Report& report);
// kCorrupt unless it is one that write() could have made.
Result<Report> read_report(wire::Reader& reader);

// All that the recorders of one rank hold, by communicator.
struct Trace {
  Rank rank = 0;
  Duration clock_offset{};  // as in Report
  std::vector<RecorderSnapshot> communicators;
};

void write(wire::Writer& writer, const Trace& trace);
Result<Trace> read_trace(wire::Reader& reader);

// Lists of ranks, at most kMaxRanks long.
void write_ranks(wire::Writer& writer, const std::vector<Rank>& ranks);
Result<std::vector<Rank>> read_ranks(wire::Reader& reader);

// "rank 2" or "ranks 2, 3".
std::string ranks_text(const std::vector<Rank>& ranks);
// "10.2 s", "350 ms", "2 min 5 s".
std::string seconds_text(Duration duration);

}  // namespace tally::group
