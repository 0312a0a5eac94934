#include "checkpoint/exchange.h"

#include <fmt/format.h>

#include <cstdint>
#include <span>

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
  Message message;
  if (!own.has_value()) message = wire::encode_error(own.error());
  TALLY_TRY(message, tell_bytes(group, std::move(message), by));
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

}  // namespace tally::checkpoint
