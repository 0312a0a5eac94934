#include "checkpoint/messages.h"

#include <fmt/format.h>

#include "base/errors.h"
#include "kernel/crc32c/crc32c.h"
#include "wire/bytes.h"
#include "wire/error_body.h"

namespace tally::checkpoint {
namespace {

// Limit of one message; a larger size means corruption.
constexpr std::int64_t kMaxMessageBytes = std::int64_t{1} << 30;

Error too_long(Rank rank, std::int64_t bytes) {
  return {.code = ErrorCode::kCorrupt,
          .peer = rank,
          .message = fmt::format("a message of {} bytes about a checkpoint", bytes)};
}

Result<Message> tell_bytes(Communicator& group, Message message, Deadline by) {
  auto bytes = static_cast<std::int64_t>(message.size());
  TALLY_TRY(group.broadcast(std::span<std::int64_t>(&bytes, 1), 0, {.by = by}));
  if (bytes < 0 || bytes > kMaxMessageBytes) return too_long(0, bytes);
  message.resize(static_cast<std::size_t>(bytes));
  if (message.empty()) return message;
  TALLY_TRY(group.run({.operation = Operation::kBroadcast,
                       .input = message.data(),
                       .output = message.data(),
                       .count = message.size(),
                       .by = by}));
  return message;
}

constexpr std::size_t kRangeBytes = 24;

// Success has no bytes.
Message bytes_of(const Result<void>& outcome) {
  return outcome.has_value() ? Message() : wire::encode_error(outcome.error());
}

void put_outcome(wire::Writer& out, const Result<void>& outcome) {
  const Message body = bytes_of(outcome);
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
    return corrupt(fmt::format("{} pieces in a message of {} bytes", count, in.remaining_bytes()));
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

Result<std::vector<Message>> gather(Communicator& group, const Message& own, Deadline by) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto own_bytes = static_cast<std::int64_t>(own.size());
  std::vector<std::int64_t> lengths(ranks);
  TALLY_TRY(group.allgather(std::span<const std::int64_t>(&own_bytes, 1), std::span(lengths),
                            {.by = by}));
  std::vector<std::size_t> counts;
  std::size_t total = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (lengths[rank] < 0 || lengths[rank] > kMaxMessageBytes)
      return too_long(static_cast<Rank>(rank), lengths[rank]);
    counts.push_back(static_cast<std::size_t>(lengths[rank]));
    total += counts.back();
  }
  Message all(group.rank() == 0 ? total : 0);
  TALLY_TRY(group.run({.operation = Operation::kGather,
                       .input = own.data(),
                       .output = all.data(),
                       .count = own.size(),
                       .counts = counts,
                       .by = by}));
  std::vector<Message> messages;
  if (group.rank() != 0) return messages;
  auto rest = std::span<const std::byte>(all);
  for (const std::size_t count : counts) {
    messages.emplace_back(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count));
    rest = rest.subspan(count);
  }
  return messages;
}

Result<void> agree(Communicator& group, const Result<void>& own, Deadline by) {
  TALLY_TRY(const Message message, tell_bytes(group, bytes_of(own), by));
  if (message.empty()) return {};
  Error verdict;
  TALLY_TRY(wire::decode_error(message, &verdict));
  return verdict;
}

Result<std::string> tell(Communicator& group, const std::string& own, Deadline by) {
  const auto bytes = std::as_bytes(std::span(own));
  TALLY_TRY(const Message message, tell_bytes(group, {bytes.begin(), bytes.end()}, by));
  return std::string(reinterpret_cast<const char*>(message.data()), message.size());
}

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

Result<std::vector<Written>> decode_written(const std::vector<Message>& messages) {
  std::vector<Written> all;
  for (const Message& message : messages) {
    wire::Reader in(message);
    Written written;
    TALLY_TRY(take_outcome(in, &written.done));
    if (!written.done.has_value())
      return of_rank(static_cast<Rank>(all.size()), written.done.error());
    TALLY_TRY(const std::uint64_t count, take_count(in, sizeof(std::uint32_t)));
    written.model_crc32c.resize(count);
    for (std::uint32_t& crc32c : written.model_crc32c) {
      TALLY_TRY(crc32c, in.u32());
    }
    TALLY_TRY(written.optimizer_bytes, in.u64());
    TALLY_TRY(written.optimizer_crc32c, in.u32());
    TALLY_TRY(in.end());
    all.push_back(std::move(written));
  }
  return all;
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
