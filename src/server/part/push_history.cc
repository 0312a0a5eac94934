#include "server/part/push_history.h"

#include <bit>

#include "wire/bytes.h"
#include "wire/error_body.h"

namespace tally::server {
namespace {

constexpr std::uint32_t kMaxRoundBytes = 4U << 20;

void write_numbers(wire::Writer& writer, std::span<const std::uint64_t> numbers) {
  writer.u32(static_cast<std::uint32_t>(numbers.size()));
  for (const std::uint64_t number : numbers) writer.u64(number);
}

Result<std::vector<std::uint64_t>> read_numbers(wire::Reader& reader, std::size_t limit) {
  TALLY_TRY(const std::uint32_t count, reader.u32());
  if (count > limit) return corrupt("record with a list of {} numbers, limit {}", count, limit);
  std::vector<std::uint64_t> numbers;
  for (std::uint32_t i = 0; i < count; ++i) {
    TALLY_TRY(const std::uint64_t number, reader.u64());
    numbers.push_back(number);
  }
  return numbers;
}

Result<PushHistory> read_history(wire::Reader& reader) {
  TALLY_TRY(const std::uint64_t last, reader.u64());
  TALLY_TRY(std::vector<std::uint64_t> held, read_numbers(reader, PushHistory::kMaxHeld));
  TALLY_TRY(std::vector<std::uint64_t> dropped, read_numbers(reader, PushHistory::kMaxDropped));
  return PushHistory::restored(last, std::move(held), std::move(dropped));
}

void write_finish(wire::Writer& writer, const std::optional<Finish>& finish) {
  writer.flag(finish.has_value());
  if (!finish) return;
  writer.u64(finish->version);
  for (const double value : {finish->factor, finish->value_norm, finish->gradient_norm})
    writer.u64(std::bit_cast<std::uint64_t>(value));
  writer.flag(finish->discards);
}

Result<std::optional<Finish>> read_finish(wire::Reader& reader) {
  TALLY_TRY(const bool has, reader.flag());
  if (!has) return std::optional<Finish>();
  Finish finish;
  TALLY_TRY(finish.version, reader.u64());
  for (double* const value : {&finish.factor, &finish.value_norm, &finish.gradient_norm}) {
    TALLY_TRY(const std::uint64_t bits, reader.u64());
    *value = std::bit_cast<double>(bits);
  }
  TALLY_TRY(finish.discards, reader.flag());
  return std::optional(finish);
}

void write_failure(wire::Writer& writer, const std::optional<RoundFailure>& failure) {
  writer.flag(failure.has_value());
  if (!failure) return;
  writer.u64(failure->version);
  const std::vector<std::byte> why = wire::encode_error(failure->why);
  writer.u32(static_cast<std::uint32_t>(why.size()));
  writer.bytes(why);
}

Result<std::optional<RoundFailure>> read_failure(wire::Reader& reader) {
  TALLY_TRY(const bool has, reader.flag());
  if (!has) return std::optional<RoundFailure>();
  RoundFailure failure;
  TALLY_TRY(failure.version, reader.u64());
  TALLY_TRY(const std::uint32_t why_bytes, reader.u32());
  TALLY_TRY(const std::span<const std::byte> why, reader.bytes(why_bytes));
  TALLY_TRY(wire::decode_error(why, &failure.why));
  return std::optional(std::move(failure));
}

}  // namespace

std::vector<std::byte> encode(const PartMetadata& metadata) {
  wire::Writer writer;
  writer.u32(static_cast<std::uint32_t>(metadata.round.size()));
  writer.bytes(metadata.round);
  writer.u64(metadata.dropped);
  writer.u32(static_cast<std::uint32_t>(metadata.workers.size()));
  for (const auto& [id, history] : metadata.workers) {
    writer.u32(id);
    writer.u64(history.last());
    write_numbers(writer, history.held());
    write_numbers(writer, history.dropped());
  }
  write_finish(writer, metadata.finished);
  write_failure(writer, metadata.failure);
  return writer.take();
}

Result<PartMetadata> decode_metadata(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  PartMetadata metadata;
  TALLY_TRY(const std::uint32_t round_bytes, reader.u32());
  if (round_bytes > kMaxRoundBytes)
    return corrupt("record of {} bytes, limit {}", round_bytes, kMaxRoundBytes);
  TALLY_TRY(const std::span<const std::byte> round, reader.bytes(round_bytes));
  metadata.round.assign(round.begin(), round.end());
  TALLY_TRY(metadata.dropped, reader.u64());
  TALLY_TRY(const std::uint32_t workers, reader.u32());
  if (workers > kMaxWorkers) return corrupt("record of {} workers, limit {}", workers, kMaxWorkers);
  for (std::uint32_t i = 0; i < workers; ++i) {
    TALLY_TRY(const NodeId id, reader.u32());
    if (!metadata.workers.empty() && metadata.workers.rbegin()->first >= id)
      return corrupt("record whose workers are not in order");
    TALLY_TRY(PushHistory history, read_history(reader));
    metadata.workers.emplace_hint(metadata.workers.end(), id, std::move(history));
  }
  TALLY_TRY(metadata.finished, read_finish(reader));
  TALLY_TRY(metadata.failure, read_failure(reader));
  TALLY_TRY(reader.end());
  return metadata;
}

}  // namespace tally::server
