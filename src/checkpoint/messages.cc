#include "checkpoint/messages.h"

#include <fmt/format.h>

#include "base/errors.h"
#include "kernel/crc32c/crc32c.h"
#include "wire/error_body.h"
#include "wire/fields.h"

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

// Success has no bytes.
Message bytes_of(const Result<void>& outcome) {
  return outcome.has_value() ? Message() : wire::encode_error(outcome.error());
}

template <typename Fields>
void outcome_field(Fields& f, wire::FieldsOf<Fields, Result<void>>& outcome) {
  std::optional<Error> error;
  if (!outcome.has_value()) error = outcome.error();
  f.optional(error, [&f](auto& some) { f.error(some); });
  if constexpr (Fields::kReads) {
    if (error) outcome = *error;
  }
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

template <typename Fields>
void fields(Fields& f, wire::FieldsOf<Fields, Claim>& claim) {
  outcome_field(f, claim.sound);
  f.number(claim.step);
  f.number(claim.tensors_crc32c);
  for (auto* const ranges : {&claim.model, &claim.optimizer})
    f.list(*ranges, kMaxMessageBytes, [&f](auto& range) {
      f.number(range.tensor);
      f.number(range.first);
      f.number(range.count);
    });
}

template <typename Fields>
void fields(Fields& f, wire::FieldsOf<Fields, Written>& written) {
  outcome_field(f, written.done);
  f.list(written.model_crc32c, kMaxMessageBytes, [&f](auto& crc32c) { f.number(crc32c); });
  f.number(written.optimizer_bytes);
  f.number(written.optimizer_crc32c);
}

Message encode(const Claim& claim) { return wire::encode_fields(claim); }
Message encode(const Written& written) { return wire::encode_fields(written); }

Result<Claim> decode_claim(const Message& message) { return wire::decode_fields<Claim>(message); }

Result<std::vector<Written>> decode_written(const std::vector<Message>& messages) {
  std::vector<Written> all;
  for (const Message& message : messages) {
    TALLY_TRY(Written written, wire::decode_fields<Written>(message));
    if (!written.done.has_value())
      return of_rank(static_cast<Rank>(all.size()), written.done.error());
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
