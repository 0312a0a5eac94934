#include "group/watch_message.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "group/bodies.h"

namespace tally::group {
namespace {

// Limit of a sentence or a stack.
constexpr std::size_t kMaxSentenceBytes = 4096;

Error corrupt(std::string_view what) {
  return {.code = ErrorCode::kCorrupt, .message = fmt::format("a watch message with {}", what)};
}

std::string_view cut(const std::string& text, std::size_t most = kMaxNameBytes) {
  return std::string_view(text).substr(0, most);
}

Result<int> read_size(wire::Reader& reader) {
  TALLY_TRY(const std::int32_t size, reader.i32());
  if (size < 1 || size > kMaxRanks) return corrupt("a size that cannot be");
  return size;
}

}  // namespace

void write(wire::Writer& writer, const Registration& registration) {
  writer.string(cut(registration.job));
  writer.i32(registration.rank);
  writer.i32(registration.size);
  writer.u32(registration.generation);
  writer.u64(static_cast<std::uint64_t>(registration.pid));
  writer.string(cut(registration.host));
  writer.string(cut(registration.machine));
}

Result<Registration> read_registration(wire::Reader& reader) {
  Registration registration;
  TALLY_TRY(registration.job, reader.string(kMaxNameBytes));
  TALLY_TRY(registration.rank, read_rank(reader));
  TALLY_TRY(registration.size, read_size(reader));
  TALLY_TRY(registration.generation, reader.u32());
  TALLY_TRY(const std::uint64_t pid, reader.u64());
  registration.pid = static_cast<std::int64_t>(pid);
  TALLY_TRY(registration.host, reader.string(kMaxNameBytes));
  TALLY_TRY(registration.machine, reader.string(kMaxNameBytes));
  return registration;
}

void write(wire::Writer& writer, const Pulse& pulse) {
  writer.time(pulse.echo);
  writer.time(pulse.now);
  writer.string(cut(pulse.machine));
}

Result<Pulse> read_pulse(wire::Reader& reader) {
  Pulse pulse;
  TALLY_TRY(pulse.echo, reader.time());
  TALLY_TRY(pulse.now, reader.time());
  TALLY_TRY(pulse.machine, reader.string(kMaxNameBytes));
  return pulse;
}

void write(wire::Writer& writer, const LostRanks& lost) {
  writer.u32(lost.generation);
  write_ranks(writer, lost.ranks);
  writer.string(cut(lost.why, kMaxSentenceBytes));
}

Result<LostRanks> read_lost_ranks(wire::Reader& reader) {
  LostRanks lost;
  TALLY_TRY(lost.generation, reader.u32());
  TALLY_TRY(lost.ranks, read_ranks(reader));
  TALLY_TRY(lost.why, reader.string(kMaxSentenceBytes));
  return lost;
}

void write(wire::Writer& writer, const MemberStatus& member) {
  writer.i32(member.rank);
  writer.u8(static_cast<std::uint8_t>(member.presence));
  writer.string(cut(member.host));
  writer.u64(static_cast<std::uint64_t>(member.pid));
  writer.string(cut(member.fate));
  writer.flag(member.silence.has_value());
  if (member.silence) writer.time(*member.silence);
  writer.u64(std::bit_cast<std::uint64_t>(member.samples_per_second));
  writer.flag(member.report.has_value());
  if (member.report) write(writer, *member.report);
}

Result<MemberStatus> read_member_status(wire::Reader& reader) {
  MemberStatus member;
  TALLY_TRY(member.rank, read_rank(reader));
  TALLY_TRY(const std::uint8_t presence, reader.u8());
  if (presence > static_cast<std::uint8_t>(Presence::kLeft)) return corrupt("an unknown presence");
  member.presence = static_cast<Presence>(presence);
  TALLY_TRY(member.host, reader.string(kMaxNameBytes));
  TALLY_TRY(const std::uint64_t pid, reader.u64());
  member.pid = static_cast<std::int64_t>(pid);
  TALLY_TRY(member.fate, reader.string(kMaxNameBytes));
  TALLY_TRY(const bool heard, reader.flag());
  if (heard) {
    TALLY_TRY(member.silence, reader.time());
  }
  TALLY_TRY(const std::uint64_t bits, reader.u64());
  member.samples_per_second = std::bit_cast<double>(bits);
  if (!std::isfinite(member.samples_per_second)) return corrupt("a throughput that is no number");
  TALLY_TRY(const bool reported, reader.flag());
  if (reported) {
    TALLY_TRY(member.report, read_report(reader));
  }
  return member;
}

void write(wire::Writer& writer, const JobStatus& job) {
  writer.string(cut(job.job));
  writer.u32(job.generation);
  writer.i32(job.size);
  writer.string(cut(job.address));
  writer.time(job.uptime);
  writer.string(cut(job.stall, kMaxSentenceBytes));
}

Result<JobStatus> read_job_status(wire::Reader& reader) {
  JobStatus job;
  TALLY_TRY(job.job, reader.string(kMaxNameBytes));
  TALLY_TRY(job.generation, reader.u32());
  TALLY_TRY(job.size, read_size(reader));
  TALLY_TRY(job.address, reader.string(kMaxNameBytes));
  TALLY_TRY(job.uptime, reader.time());
  TALLY_TRY(job.stall, reader.string(kMaxSentenceBytes));
  return job;
}

}  // namespace tally::group
