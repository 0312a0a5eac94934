#include "group/watch_message.h"

#include <cmath>

#include "group/bodies.h"
#include "wire/fields.h"

namespace tally::group {

using wire::FieldsOf;

namespace {

// Limit of a sentence or a stack.
constexpr std::size_t kMaxSentenceBytes = 4096;

template <typename Fields>
void member_rank(Fields& f, FieldsOf<Fields, Rank>& rank) {
  f.number(rank);
  f.check(rank >= 0 && rank < kMaxRanks, "a rank that is not possible");
}

template <typename Fields>
void job_size(Fields& f, FieldsOf<Fields, int>& size) {
  f.number(size);
  f.check(size >= 1 && size <= kMaxRanks, "a size that is not possible");
}

}  // namespace

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Registration>& registration) {
  f.clipped(registration.job, kMaxNameBytes);
  member_rank(f, registration.rank);
  job_size(f, registration.size);
  f.number(registration.generation);
  f.number(registration.pid);
  f.clipped(registration.host, kMaxNameBytes);
  f.clipped(registration.machine, kMaxNameBytes);
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
  f.list(lost.ranks, kMaxRanks, [&f](auto& rank) { member_rank(f, rank); });
  f.clipped(lost.why, kMaxSentenceBytes);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, MemberStatus>& member) {
  member_rank(f, member.rank);
  f.choice(member.presence, Presence::kLeft);
  f.clipped(member.host, kMaxNameBytes);
  f.number(member.pid);
  f.clipped(member.fate, kMaxNameBytes);
  f.optional(member.silence, [&f](auto& silence) { f.time(silence); });
  f.real(member.samples_per_second);
  f.check(std::isfinite(member.samples_per_second), "a throughput that is not finite");
  f.optional(member.report, [&f](auto& report) { f.nested(report, &read_report); });
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, JobStatus>& job) {
  f.clipped(job.job, kMaxNameBytes);
  f.number(job.generation);
  job_size(f, job.size);
  f.clipped(job.address, kMaxNameBytes);
  f.time(job.uptime);
  f.clipped(job.stall, kMaxSentenceBytes);
}

void write(wire::Writer& writer, const Registration& body) { wire::write_fields(writer, body); }
Result<Registration> read_registration(wire::Reader& reader) {
  return wire::read_fields<Registration>(reader);
}
void write(wire::Writer& writer, const Pulse& body) { wire::write_fields(writer, body); }
Result<Pulse> read_pulse(wire::Reader& reader) { return wire::read_fields<Pulse>(reader); }
void write(wire::Writer& writer, const LostRanks& body) { wire::write_fields(writer, body); }
Result<LostRanks> read_lost_ranks(wire::Reader& reader) {
  return wire::read_fields<LostRanks>(reader);
}
void write(wire::Writer& writer, const MemberStatus& body) { wire::write_fields(writer, body); }
Result<MemberStatus> read_member_status(wire::Reader& reader) {
  return wire::read_fields<MemberStatus>(reader);
}
void write(wire::Writer& writer, const JobStatus& body) { wire::write_fields(writer, body); }
Result<JobStatus> read_job_status(wire::Reader& reader) {
  return wire::read_fields<JobStatus>(reader);
}

}  // namespace tally::group
