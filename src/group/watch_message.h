#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "group/control.h"
#include "group/report.h"
#include "group/roster.h"

namespace tally::group {

// The bodies of the messages between a coordinator, the ranks that it watches, and observers.

// A rank registers with this.
struct Registration {
  std::string job;  // empty: the rank does not know it
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
  std::optional<Duration> silence;  // since the last report; none: the rank never reported
  double samples_per_second = 0;
  std::optional<Report> report;
};

struct JobStatus {
  std::string job;
  std::uint32_t generation = 1;
  int size = 1;
  std::string address;
  Duration uptime{};
  std::string stall;  // the sentence of the current stall; empty if there is none
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

}  // namespace tally::group
