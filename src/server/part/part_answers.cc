#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/part/part.h"
#include "wire/error_body.h"

namespace tally::server {

void Part::pull(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  auto payload = payload_of(message.payload, false, true);
  if (!payload) return refuse(from, header, payload.error());
  Waiting waiting{.worker = from,
                  .request = header,
                  .reply = message.reply,
                  .keys = {payload->keys.begin(), payload->keys.end()},
                  .wants_values = true};
  // Who waits for a version gives up the gradients of older ones: a round may be complete without
  // them.
  if (!round_.may_read(header.least_version, header.least_clock)) {
    round_.pass(from, header.least_version);
    run_due();
  }
  finish(std::move(waiting));
}

void Part::read_state(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  if (facts_.spec.kind != TableKind::kDense)
    return refuse(from, header,
                  {.code = ErrorCode::kInvalid, .message = "only dense tables show their state"});
  std::vector<std::byte> state(value_bytes_);
  if (auto read = storage_->read_state(header.push_kind, state); !read)
    return refuse(from, header, read.error());
  answer_plain(from, header, Outcome::kDone, std::move(state));
}

// Who had to wait for others to read gets an answer when what they did is safe, like they do: if
// one were answered before the other it could push again, and the other would read more than it.
bool Part::is_ready(Waiting& waiting) const {
  if (waiting.is_held) return false;
  if (waiting.wants_values && !waiting.is_readable) {
    if (!round_.may_read(waiting.request.least_version, waiting.request.least_clock)) {
      waiting.had_to_wait = true;
      return false;
    }
    waiting.is_readable = true;
    if (waiting.had_to_wait) waiting.mark = replication_.marks();
  }
  return replication_.is_safe(waiting.mark);
}

void Part::finish(Waiting waiting) {
  if (is_ready(waiting)) return answer(waiting);
  // Asked again: the earlier question is forgotten.
  const auto same = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& other) {
    return other.worker == waiting.worker && other.request.sequence == waiting.request.sequence;
  });
  if (same != waiting_.end()) {
    *same = std::move(waiting);
  } else {
    waiting_.push_back(std::move(waiting));
  }
}

void Part::answer_ready() {
  if (waiting_.empty()) return;
  std::vector<Waiting> ready;
  std::vector<Waiting> unsafe;
  std::erase_if(waiting_, [&](Waiting& waiting) {
    const bool is_over = is_ready(waiting);
    const bool is_refused = refusal_ && !replication_.is_safe(waiting.mark);
    if (!is_over && !is_refused) return false;
    (is_over ? ready : unsafe).push_back(std::move(waiting));
    return true;
  });
  for (Waiting& waiting : ready) answer(waiting);
  for (const Waiting& waiting : unsafe) refuse(waiting.worker, waiting.request, *refusal_);
}

void Part::answer(Waiting& waiting) {
  MessageHeader header = answer_header(waiting.request, waiting.outcome);
  header.least_clock = waiting.staleness;
  if (!waiting.wants_values) return around_.postman.send(waiting.worker, header, {});
  if (has_average_for(waiting)) {
    const auto average = storage_->average();
    header.push_kind = kAverage;
    return around_.postman.send(waiting.worker, header, {average.begin(), average.end()});
  }
  const std::size_t bytes = storage_->value_bytes(waiting.keys.size());
  const bool in_place = !waiting.reply.empty() && waiting.reply.size() >= bytes;
  std::vector<std::byte> owned = around_.postman.buffer(in_place ? 0 : bytes);
  const std::span<std::byte> out = in_place ? waiting.reply.first(bytes) : std::span(owned);
  const auto read =
      in_place ? storage_->read_for_others(waiting.keys, out) : storage_->read(waiting.keys, out);
  if (!read) return refuse(waiting.worker, waiting.request, read.error());
  if (facts_.rules.stale == plan::Stale::kCompensate && facts_.spec.kind == TableKind::kDense) {
    const auto worker = workers_.find(waiting.worker);
    if (worker != workers_.end()) worker->second.backup.assign(out.begin(), out.end());
  }
  if (in_place) return around_.postman.send_written(waiting.worker, header, bytes);
  around_.postman.send(waiting.worker, header, std::move(owned));
}

// It has the values that the average was added to, and none has come since.
bool Part::has_average_for(const Waiting& waiting) const {
  return waiting.request.kind == MessageKind::kPushAverage && waiting.outcome == Outcome::kDone &&
         average_version_ != 0 && average_version_ == round_.version() &&
         average_version_ == waiting.request.version + 1;
}

MessageHeader Part::answer_header(const MessageHeader& request, Outcome outcome) const {
  return {.kind = MessageKind::kAnswer,
          .outcome = outcome,
          .table = facts_.id,
          .part = index_,
          .view = position_.view,
          .sequence = request.sequence,
          .clock = round_.slowest_clock(),
          .version = round_.version()};
}

void Part::answer_plain(NodeId to, const MessageHeader& request, Outcome outcome,
                        std::vector<std::byte> payload) {
  around_.postman.send(to, answer_header(request, outcome), std::move(payload));
}

void Part::refuse(NodeId to, const MessageHeader& request, const Error& why) {
  answer_plain(to, request, Outcome::kRefused, wire::encode_error(why));
}

}  // namespace tally::server
