#include "group/watch_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "group/bodies.h"
#include "kernel/crc32c/crc32c.h"
#include "wire/frame.h"

namespace tally::group {
namespace {

// A sentence or a stack.
constexpr std::size_t kMaxSentenceBytes = 4096;

Error corrupt(std::string_view what) {
  return {.code = ErrorCode::kCorrupt, .message = fmt::format("a watch message with {}", what)};
}

std::string_view cut(const std::string& text, std::size_t most = kMaxNameBytes) {
  return std::string_view(text).substr(0, most);
}

void write_time(wire::Writer& writer, std::chrono::nanoseconds time) {
  writer.u64(static_cast<std::uint64_t>(time.count()));
}

Result<std::chrono::nanoseconds> read_time(wire::Reader& reader) {
  constexpr auto kMost = std::int64_t{1} << 61;
  TALLY_TRY(const std::uint64_t bits, reader.u64());
  const auto value = static_cast<std::int64_t>(bits);
  if (value > kMost || value < -kMost) return corrupt("an impossible time");
  return std::chrono::nanoseconds(value);
}

Result<Rank> read_rank(wire::Reader& reader) {
  TALLY_TRY(const Rank rank, reader.i32());
  if (rank < 0 || rank >= kMaxRanks) return corrupt("a rank that cannot be");
  return rank;
}

Result<bool> read_flag(wire::Reader& reader) {
  TALLY_TRY(const std::uint8_t value, reader.u8());
  if (value > 1) return corrupt("a flag that is neither yes nor no");
  return value == 1;
}

Result<int> read_size(wire::Reader& reader) {
  TALLY_TRY(const std::int32_t size, reader.i32());
  if (size < 1 || size > kMaxRanks) return corrupt("a size that cannot be");
  return size;
}

}  // namespace

std::vector<std::byte> encode(const WatchMessage& message) {
  std::vector<std::byte> payload{static_cast<std::byte>(message.kind)};
  payload.insert(payload.end(), message.body.begin(), message.body.end());
  TALLY_CHECK(payload.size() <= wire::kMaxPayloadBytes);
  const auto header = wire::encode({.kind = wire::FrameKind::kControl,
                                    .message_bytes = payload.size(),
                                    .payload_bytes = static_cast<std::uint32_t>(payload.size()),
                                    .payload_checksum = kernel::crc32c(payload)});
  std::vector<std::byte> bytes(header.size() + payload.size());
  std::copy(header.begin(), header.end(), bytes.begin());
  std::copy(payload.begin(), payload.end(),
            bytes.begin() + static_cast<std::ptrdiff_t>(header.size()));
  return bytes;
}

void MessageBuffer::add(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<WatchMessage>> MessageBuffer::next() {
  if (bytes_.size() < wire::kHeaderBytes) return std::optional<WatchMessage>();
  TALLY_TRY(const wire::FrameHeader header,
            wire::decode(std::span(bytes_).first<wire::kHeaderBytes>()));
  if (header.kind != wire::FrameKind::kControl || header.payload_bytes == 0 ||
      header.message_bytes != header.payload_bytes)
    return corrupt("another kind of frame");
  const std::size_t total = wire::kHeaderBytes + header.payload_bytes;
  if (bytes_.size() < total) return std::optional<WatchMessage>();
  const auto payload = std::span(bytes_).subspan(wire::kHeaderBytes, header.payload_bytes);
  if (kernel::crc32c(payload) != header.payload_checksum) return corrupt("a wrong checksum");
  const auto kind = static_cast<std::uint8_t>(payload.front());
  if (kind < static_cast<std::uint8_t>(WatchKind::kRegister) ||
      kind > static_cast<std::uint8_t>(WatchKind::kEnd))
    return corrupt("an unknown kind");
  WatchMessage message{static_cast<WatchKind>(kind), {payload.begin() + 1, payload.end()}};
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(total));
  return std::optional(std::move(message));
}

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
  write_time(writer, pulse.echo);
  write_time(writer, pulse.now);
  writer.string(cut(pulse.machine));
}

Result<Pulse> read_pulse(wire::Reader& reader) {
  Pulse pulse;
  TALLY_TRY(pulse.echo, read_time(reader));
  TALLY_TRY(pulse.now, read_time(reader));
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
  writer.u8(member.silence ? 1 : 0);
  if (member.silence) write_time(writer, *member.silence);
  writer.u64(std::bit_cast<std::uint64_t>(member.samples_per_second));
  writer.u8(member.report ? 1 : 0);
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
  TALLY_TRY(const bool heard, read_flag(reader));
  if (heard) {
    TALLY_TRY(member.silence, read_time(reader));
  }
  TALLY_TRY(const std::uint64_t bits, reader.u64());
  member.samples_per_second = std::bit_cast<double>(bits);
  if (!std::isfinite(member.samples_per_second)) return corrupt("a throughput that is no number");
  TALLY_TRY(const bool reported, read_flag(reader));
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
  write_time(writer, job.uptime);
  writer.string(cut(job.stall, kMaxSentenceBytes));
}

Result<JobStatus> read_job_status(wire::Reader& reader) {
  JobStatus job;
  TALLY_TRY(job.job, reader.string(kMaxNameBytes));
  TALLY_TRY(job.generation, reader.u32());
  TALLY_TRY(job.size, read_size(reader));
  TALLY_TRY(job.address, reader.string(kMaxNameBytes));
  TALLY_TRY(job.uptime, read_time(reader));
  TALLY_TRY(job.stall, reader.string(kMaxSentenceBytes));
  return job;
}

}  // namespace tally::group
