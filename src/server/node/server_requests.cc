#include <utility>

#include <fmt/format.h>

#include "server/node/server_node.h"
#include "server/protocol/message.h"
#include "server/protocol/view.h"
#include "wire/error_body.h"

namespace tally::server {
namespace {

// Limits of the requests of all peers that wait for a view. Records may use twice as much.
constexpr std::size_t kMaxEarly = 65536;
constexpr std::size_t kMaxEarlyBytes = std::size_t{256} << 20;

bool is_request(MessageKind kind) {
  return kind >= MessageKind::kDefine && kind <= MessageKind::kFinish;
}

}  // namespace

void ServerNode::on_message(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  if (options_.clock) look_at_clock(options_.clock());
  if (header.kind == MessageKind::kView) {
    if (from == kDirectoryId) take_view(message);
    return;
  }
  if (header.kind == MessageKind::kHeartbeat && from == kDirectoryId)
    return take_heartbeat(message);
  if (header.kind == MessageKind::kAnswer && from == kDirectoryId) return take_refusal(message);
  const bool is_between_servers =
      header.kind == MessageKind::kRecord || header.kind == MessageKind::kRecordTaken;
  if (!is_request(header.kind) && !is_between_servers) return;
  if (header.view > admitted_view_.load(std::memory_order_acquire) && wait_for_view(from, message))
    return;
  dispatch(from, message);
}

// The directory sends an answer only to a join that it refuses.
void ServerNode::take_refusal(const Message& message) {
  if (message.header.outcome != Outcome::kRefused) return;
  const Error why = decode_refusal(message.payload);
  const MutexLock lock(structure_);
  become_expelled(fmt::format("the directory refuses it: {}", why.message));
}

// False if the view has arrived meanwhile.
bool ServerNode::wait_for_view(NodeId from, const Message& message) {
  const MutexLock lock(early_mutex_);
  if (message.header.view <= admitted_view_.load(std::memory_order_acquire)) return false;
  const MessageHeader& header = message.header;
  const std::size_t share = is_request(header.kind) ? 1 : 2;
  if (early_.size() >= share * kMaxEarly ||
      early_bytes_ + message.payload.size() > share * kMaxEarlyBytes) {
    if (is_request(header.kind))
      refuse(from, header,
             make_error(ErrorCode::kExhausted, "{} messages wait for a newer view", early_.size()));
    if (header.kind == MessageKind::kRecord) answer(from, header, Outcome::kNotPrimary);
    return true;
  }
  KeptMessage early(from, message);
  early_bytes_ += early.owned.size();
  early_.push_back(std::move(early));
  return true;
}

void ServerNode::dispatch(NodeId from, const Message& message) {
  switch (message.header.kind) {
    case MessageKind::kDefine:
      return define(from, message);
    case MessageKind::kAgree:
      return agree(from, message);
    case MessageKind::kSize:
      return size(from, message);
    case MessageKind::kSnapshot:
      return snapshot(from, message);
    case MessageKind::kRestore:
      return restore(from, message);
    case MessageKind::kRecord:
      if ((message.header.push_kind & (kSpec | kListing)) != 0) return take_spec(from, message);
      return ask_part(from, message);
    default:
      return ask_part(from, message);
  }
}

void ServerNode::ask_part(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  Table* const table = tables_.find(header.table);
  TablePart* const part = table == nullptr ? nullptr : table->part(header.part);
  if (part == nullptr) return unknown_part(from, header);
  if (is_request(header.kind)) return part->request(from, message);
  if (header.kind == MessageKind::kRecord) {
    part->take_record(from, message);
  } else {
    part->record_taken(from, message);
  }
  if (part->wants_fill()) {
    const MutexLock lock(fills_mutex_);
    fills_.push_back(part);
    has_fills_.store(true);
  }
  pump_fills();
}

void ServerNode::unknown_part(NodeId from, const MessageHeader& header) {
  if (header.kind == MessageKind::kRecord)
    return refuse(from, header, invalid("no table has the number {}", header.table));
  if (!is_request(header.kind)) return;
  const MutexLock lock(structure_);
  if (expelled() || slots_.empty()) return answer(from, header, Outcome::kNotPrimary);
  const auto slot = slot_of(header.table, header.part, static_cast<std::uint32_t>(slots_.size()));
  if (slots_[slot].position.role != ChainPosition::Role::kPrimary)
    return answer(from, header, Outcome::kNotPrimary);
  // This server joined the chain later, and never received the list of tables.
  if (!slots_[slot].is_settled)
    return answer(from, header, Outcome::kLost, encode_text(newest_snapshot_.path()));
  refuse(from, header,
         invalid("no table has the number {} and a part {}", header.table, header.part));
}

bool ServerNode::admits(NodeId from, const MessageHeader& request) {
  if (!expelled() && has_worker(view_, from)) return true;
  if (expelled()) {
    answer(from, request, Outcome::kNotPrimary);
  } else {
    refuse(from, request,
           make_error(ErrorCode::kClosed, "node {} is not a worker of this job", from));
  }
  return false;
}

void ServerNode::define(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  auto spec = decode_spec(message.payload);
  if (!spec) return refuse(from, header, spec.error());
  if (header.table != table_id(spec->name))
    return refuse(from, header,
                  invalid("table '{}' has the number {}, not {}", spec->name, table_id(spec->name),
                          header.table));
  const MutexLock lock(structure_);
  if (!admits(from, header)) return;
  if (auto added = add_table(header.table, *spec); !added)
    return refuse(from, header, added.error());
  answer(from, header, Outcome::kDone);
}

void ServerNode::agree(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  auto values = decode_values(message.payload);
  if (!values) return refuse(from, header, values.error());
  Agreement::Answers answers;
  {
    const MutexLock lock(agreement_mutex_);
    if (!agrees_) return answer(from, header, Outcome::kNotPrimary);
    answers = agreement_.offer(from, header, std::move(*values));
  }
  send_agreed(answers);
}

void ServerNode::send_agreed(const Agreement::Answers& answers) {
  for (const Agreement::Answer& one : answers) {
    if (one.error) {
      refuse(one.worker, one.request, *one.error);
    } else {
      answer(one.worker, one.request, one.outcome,
             one.outcome == Outcome::kDone ? encode(one.sums) : std::vector<std::byte>(),
             one.number);
    }
  }
}

void ServerNode::size(NodeId from, const Message& message) {
  {
    const MutexLock lock(structure_);
    if (!admits(from, message.header)) return;
  }
  // A server that joined later and is in no chain does not know the table, and has nothing of it.
  Client::Size sum;
  if (Table* const table = tables_.find(message.header.table); table != nullptr)
    for (const auto& part : table->parts()) part->add_size(sum);
  answer(from, message.header, Outcome::kDone, encode(sum));
}

void ServerNode::answer(NodeId to, const MessageHeader& request, Outcome outcome,
                        std::vector<std::byte> payload, std::uint64_t version) {
  transport_.send(to,
                  {.kind = request.kind == MessageKind::kRecord ? MessageKind::kRecordTaken
                                                                : MessageKind::kAnswer,
                   .outcome = outcome,
                   .table = request.table,
                   .part = request.part,
                   .view = view_number_.load(),
                   .sequence = request.sequence,
                   .version = version},
                  std::move(payload));
}

void ServerNode::refuse(NodeId to, const MessageHeader& request, const Error& why) {
  answer(to, request, Outcome::kRefused, wire::encode_error(why));
}

}  // namespace tally::server
