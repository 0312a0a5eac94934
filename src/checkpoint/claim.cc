#include "checkpoint/claim.h"

#include <fmt/format.h>

#include "kernel/crc32c/crc32c.h"
#include "wire/bytes.h"
#include "wire/error_body.h"

namespace tally::checkpoint {
namespace {

constexpr std::size_t kRangeBytes = 24;

void put_outcome(wire::Writer& out, const Result<void>& outcome) {
  const Message body = outcome.has_value() ? Message() : wire::encode_error(outcome.error());
  out.u32(static_cast<std::uint32_t>(body.size()));
  out.bytes(body);
}

// Reads the outcome that a rank sent into `*outcome`. The return value is an error only if the
// bytes cannot be decoded.
Result<void> take_outcome(wire::Reader& in, Result<void>* outcome) {
  TALLY_TRY(const std::uint32_t bytes, in.u32());
  TALLY_TRY(const std::span<const std::byte> body, in.bytes(bytes));
  if (body.empty()) return {};
  Error error;
  TALLY_TRY(wire::decode_error(body, &error));
  *outcome = error;
  return {};
}

void put_ranges(wire::Writer& out, const std::vector<Range>& ranges) {
  out.u64(ranges.size());
  for (const Range& range : ranges) {
    out.u64(range.tensor);
    out.u64(range.first);
    out.u64(range.count);
  }
}

// Reads the number of items that follow, each of at least `each_bytes`. kCorrupt if the rest of the
// message is too short for them.
Result<std::uint64_t> take_count(wire::Reader& in, std::size_t each_bytes) {
  TALLY_TRY(const std::uint64_t count, in.u64());
  if (count > in.remaining_bytes() / each_bytes)
    return Error{
        .code = ErrorCode::kCorrupt,
        .message = fmt::format("{} pieces in a message of {} bytes", count, in.remaining_bytes())};
  return count;
}

Result<std::vector<Range>> take_ranges(wire::Reader& in) {
  TALLY_TRY(const std::uint64_t count, take_count(in, kRangeBytes));
  std::vector<Range> ranges(count);
  for (Range& range : ranges) {
    TALLY_TRY(range.tensor, in.u64());
    TALLY_TRY(range.first, in.u64());
    TALLY_TRY(range.count, in.u64());
  }
  return ranges;
}

}  // namespace

Message encode(const Claim& claim) {
  wire::Writer out;
  put_outcome(out, claim.sound);
  out.u64(claim.step);
  out.u32(claim.tensors_crc32c);
  put_ranges(out, claim.model);
  put_ranges(out, claim.optimizer);
  return out.take();
}

Result<Claim> decode_claim(const Message& message) {
  wire::Reader in(message);
  Claim claim;
  TALLY_TRY(take_outcome(in, &claim.sound));
  TALLY_TRY(claim.step, in.u64());
  TALLY_TRY(claim.tensors_crc32c, in.u32());
  TALLY_TRY(claim.model, take_ranges(in));
  TALLY_TRY(claim.optimizer, take_ranges(in));
  TALLY_TRY(in.end());
  return claim;
}

Message encode(const Written& written) {
  wire::Writer out;
  put_outcome(out, written.done);
  out.u64(written.model_crc32c.size());
  for (const std::uint32_t crc32c : written.model_crc32c) out.u32(crc32c);
  out.u64(written.optimizer_bytes);
  out.u32(written.optimizer_crc32c);
  return out.take();
}

Result<Written> decode_written(const Message& message) {
  wire::Reader in(message);
  Written written;
  TALLY_TRY(take_outcome(in, &written.done));
  TALLY_TRY(const std::uint64_t count, take_count(in, sizeof(std::uint32_t)));
  written.model_crc32c.resize(count);
  for (std::uint32_t& crc32c : written.model_crc32c) {
    TALLY_TRY(crc32c, in.u32());
  }
  TALLY_TRY(written.optimizer_bytes, in.u64());
  TALLY_TRY(written.optimizer_crc32c, in.u32());
  TALLY_TRY(in.end());
  return written;
}

std::uint32_t checksum_of(std::span<const TensorInfo> tensors,
                          std::span<const TensorInfo> state_tensors) {
  wire::Writer text;
  for (const auto list : {tensors, state_tensors}) {
    text.u64(list.size());
    for (const TensorInfo& tensor : list) {
      text.string(tensor.name);
      text.u8(static_cast<std::uint8_t>(tensor.type));
      text.u64(tensor.shape.size());
      for (const std::int64_t size : tensor.shape) text.u64(static_cast<std::uint64_t>(size));
    }
  }
  return kernel::crc32c(text.view());
}

Error of_rank(Rank rank, const Error& error) {
  return {
      .code = error.code, .peer = rank, .message = fmt::format("rank {}: {}", rank, error.message)};
}

Result<void> check_claims(std::span<const TensorInfo> tensors,
                          std::span<const TensorInfo> state_tensors,
                          const std::vector<Claim>& claims) {
  std::vector<Range> model;
  std::vector<Range> optimizer;
  for (std::size_t index = 0; index < claims.size(); ++index) {
    const auto rank = static_cast<Rank>(index);
    const Claim& claim = claims[index];
    if (!claim.sound.has_value()) return of_rank(rank, claim.sound.error());
    if (claim.step != claims[0].step)
      return of_rank(rank, {.code = ErrorCode::kMismatch,
                            .message = fmt::format("saves step {}, and rank 0 saves step {}",
                                                   claim.step, claims[0].step)});
    if (claim.tensors_crc32c != claims[0].tensors_crc32c)
      return of_rank(rank, {.code = ErrorCode::kMismatch,
                            .message = "its list of tensors differs from that of rank 0"});
    for (Range range : claim.model) {
      range.rank = rank;
      model.push_back(range);
    }
    for (Range range : claim.optimizer) {
      range.rank = rank;
      optimizer.push_back(range);
    }
  }
  TALLY_TRY(check_cover(tensors, std::move(model)));
  return check_cover(state_tensors, std::move(optimizer));
}

}  // namespace tally::checkpoint
