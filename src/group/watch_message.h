#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "group/report.h"
#include "group/roster.h"

namespace tally::group {

// What a coordinator, the ranks that it watches and those who ask about them say to each other: one
// kControl frame each, the first byte of the payload telling which.
enum class WatchKind : std::uint8_t {
  kRegister = 32,   // rank: Registration
  kReport = 33,     // rank: Report
  kGoodbye = 34,    // rank: its last Report; nothing follows
  kStack = 35,      // rank: string, answers kWantStack
  kTrace = 36,      // rank: Trace, answers kWantTrace; coordinator to observer: the same
  kAskStatus = 37,  // observer: empty
  kAskTrace = 38,   // observer: empty
  kPulse = 39,      // coordinator to rank: Pulse, answers kReport
  kLost = 40,       // coordinator to rank: LostRanks
  kWantStack = 41,  // coordinator to rank: empty
  kWantTrace = 42,  // coordinator to rank: empty
  kRefusal = 43,    // coordinator: an Error; the connection ends
  kJob = 44,        // coordinator to observer: JobStatus without members
  kMember = 45,     // coordinator to observer: MemberStatus
  kEnd = 46,        // coordinator to observer: that was all; empty
};

struct WatchMessage {
  WatchKind kind = WatchKind::kEnd;
  std::vector<std::byte> body;
};

// As it crosses the wire. The body is at most wire::kMaxPayloadBytes - 1.
std::vector<std::byte> encode(const WatchMessage& message);

// Cuts arriving bytes into messages. Holds at most one message that is not complete.
class MessageBuffer {
 public:
  void add(std::span<const std::byte> bytes);
  // The next message, or none until more has come. kCorrupt: what came can be none.
  Result<std::optional<WatchMessage>> next();

 private:
  std::vector<std::byte> bytes_;
};

// A rank presents itself.
struct Registration {
  std::string job;  // empty: it does not know
  Rank rank = 0;
  int size = 1;
  std::uint32_t generation = 1;
  std::int64_t pid = 0;
  std::string host;
  // The same text on processes that share the steady clock.
  std::string machine;
};

struct Pulse {
  TimePoint echo{};  // Report::at of the report that it answers
  TimePoint now{};   // on the coordinator's clock
  std::string machine;
};

struct LostRanks {
  std::uint32_t generation = 1;
  std::vector<Rank> ranks;
  std::string why;
};

struct MemberStatus {
  Rank rank = 0;
  Presence presence = Presence::kExpected;
  std::string host;
  std::int64_t pid = 0;
  std::string fate;
  std::optional<Duration> silence;  // since the last report; none: never heard of
  double samples_per_second = 0;
  std::optional<Report> report;
};

struct JobStatus {
  std::string job;
  std::uint32_t generation = 1;
  int size = 1;
  std::string address;
  Duration uptime{};
  std::string stall;  // what was said of it, empty if nothing is stalled
  std::vector<MemberStatus> members;
};

void write(wire::Writer& writer, const Registration& registration);
Result<Registration> read_registration(wire::Reader& reader);
void write(wire::Writer& writer, const Pulse& pulse);
Result<Pulse> read_pulse(wire::Reader& reader);
void write(wire::Writer& writer, const LostRanks& lost);
Result<LostRanks> read_lost_ranks(wire::Reader& reader);
void write(wire::Writer& writer, const MemberStatus& member);
Result<MemberStatus> read_member_status(wire::Reader& reader);
// Without the members: each is a message of its own.
void write(wire::Writer& writer, const JobStatus& job);
Result<JobStatus> read_job_status(wire::Reader& reader);

template <typename Body>
WatchMessage message_of(WatchKind kind, const Body& body) {
  wire::Writer writer;
  write(writer, body);
  return {kind, writer.take()};
}

// The whole body as one value; kCorrupt if something follows it.
template <typename Body>
Result<Body> body_of(const WatchMessage& message, Result<Body> (*read)(wire::Reader&)) {
  wire::Reader reader(message.body);
  TALLY_TRY(Body body, read(reader));
  TALLY_TRY(reader.end());
  return body;
}

}  // namespace tally::group
