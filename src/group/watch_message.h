#pragma once
#include <cmath>
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
  std::string host_identity;  // as host_identity(""): where `pid` is valid
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

// The answer to kWantStack.
struct StackReply {
  std::string stack;
};

// The limit of a sentence or a stack.
inline constexpr std::size_t kMaxSentenceBytes = 4096;

template <typename Fields>
void size_field(Fields& f, FieldsOf<Fields, int>& size) {
  f.number(size);
  f.check(size >= 1 && size <= kMaxRanks, "a size that is not possible");
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Registration>& registration) {
  f.clipped(registration.job, kMaxNameBytes);
  rank_field(f, registration.rank);
  size_field(f, registration.size);
  f.number(registration.generation);
  f.number(registration.pid);
  f.clipped(registration.host, kMaxNameBytes);
  f.clipped(registration.host_identity, kMaxNameBytes);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Pulse>& pulse) {
  f.time(pulse.echo);
  f.time(pulse.now);
  f.clipped(pulse.machine, kMaxNameBytes);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, LostRanks>& lost) {
  f.number(lost.generation);
  ranks_field(f, lost.ranks);
  f.clipped(lost.why, kMaxSentenceBytes);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, MemberStatus>& member) {
  rank_field(f, member.rank);
  f.choice(member.presence, Presence::kLeft);
  f.clipped(member.host, kMaxNameBytes);
  f.number(member.pid);
  f.clipped(member.fate, kMaxNameBytes);
  f.optional(member.silence, [&f](auto& silence) { f.time(silence); });
  f.real(member.samples_per_second);
  f.check(std::isfinite(member.samples_per_second), "a throughput that is not finite");
  f.optional(member.report, [&f](auto& report) { fields(f, report); });
}

// Without the members: each is a message of its own.
template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, JobStatus>& job) {
  f.clipped(job.job, kMaxNameBytes);
  f.number(job.generation);
  size_field(f, job.size);
  f.clipped(job.address, kMaxNameBytes);
  f.time(job.uptime);
  f.clipped(job.stall, kMaxSentenceBytes);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, StackReply>& reply) {
  f.text(reply.stack, kMaxSentenceBytes);
}

}  // namespace tally::group
