#include "server/part/table_part.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/protocol/view.h"
#include "wire/error_body.h"

namespace tally::server {
TablePart::TablePart(const TableConfig& config, std::uint32_t index, const PartContext& context)
    : config_(config),
      index_(index),
      slot_(slot_of(config.id, index, config.slots)),
      context_(context),
      round_(config.rules) {
  if (config.spec.kind == TableKind::kDense)
    value_bytes_ = elements_of(config.spec, index) * size_of(config.spec.type);
}

Result<void> TablePart::make_present() {
  const std::unique_lock lock(gate_);
  TALLY_TRY(ensure_storage());
  presence_ = Presence::kPresent;
  return {};
}

void TablePart::await_record() {
  const std::unique_lock lock(gate_);
  if (presence_ == Presence::kElsewhere) presence_ = Presence::kAbsent;
  is_listed_ = true;
}

Result<void> TablePart::end_of_listing() {
  {
    const std::unique_lock lock(gate_);
    if (presence_ != Presence::kAbsent || is_listed_) return {};
  }
  return make_present();
}

bool TablePart::is_lost() const {
  const std::shared_lock lock(gate_);
  return presence_ == Presence::kLost;
}

void TablePart::run_deferred() {
  while (has_deferred_.load(std::memory_order_acquire)) {
    std::deque<Deferred> batch;
    {
      const std::lock_guard lock(mutex_);
      batch.swap(deferred_);
      has_deferred_.store(false, std::memory_order_release);
    }
    for (const Deferred& deferred : batch) handle(deferred.from, deferred.message);
  }
}

// Whoever has the gate does the work of those who could not get it. One that appends just before
// the gate is free either finds it free itself, or is seen by the one who looks after freeing it.
// Who only looks at the part does not look after it: for such times it is left over.
void TablePart::drain() {
  while (has_deferred_.load(std::memory_order_acquire)) {
    const std::unique_lock lock(gate_, std::try_to_lock);
    if (!lock.owns_lock()) {
      if (!is_in_deferred_parts_.exchange(true)) context_.deferred_parts.add(*this);
      return;
    }
    run_deferred();
    proceed();
  }
}

void TablePart::run_deferred_pushes() {
  is_in_deferred_parts_.exchange(false);
  exclusively([] {});
}

void TablePart::defer(NodeId from, const Message& message) {
  Deferred deferred{.from = from, .message = message};
  if (!message.stays) {
    deferred.owned.assign(message.payload.begin(), message.payload.end());
    deferred.message.payload = deferred.owned;
  }
  const std::lock_guard lock(mutex_);
  deferred_.push_back(std::move(deferred));
  has_deferred_.store(true, std::memory_order_release);
}

void TablePart::request(NodeId from, const Message& message) {
  if (is_push(message.header.kind)) {
    if (config_.rules.conflict == plan::Conflict::kAtomic && push_atomically(from, message)) return;
    if (config_.rules.conflict == plan::Conflict::kAccumulate) {
      {
        const std::unique_lock lock(gate_, std::try_to_lock);
        if (lock.owns_lock()) {
          run_deferred();
          handle(from, message);
          proceed();
        } else {
          defer(from, message);
        }
      }
      return drain();
    }
  }
  exclusively([&] { handle(from, message); });
}

void TablePart::handle(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  if (position_.role != ChainPosition::Role::kPrimary)
    return answer_plain(from, header, Outcome::kNotPrimary);
  if (presence_ != Presence::kPresent) {
    const std::string snapshot = context_.snapshot.path();
    const auto bytes = std::as_bytes(std::span(snapshot));
    return answer_plain(from, header, Outcome::kLost, {bytes.begin(), bytes.end()});
  }
  const auto worker = workers_.find(from);
  if (worker == workers_.end())
    return refuse(from, header,
                  {.code = ErrorCode::kClosed,
                   .message = fmt::format("{} is no worker of this job, or no longer", from)});
  handle_admitted(from, message, worker->second);
}

void TablePart::handle_admitted(NodeId from, const Message& message, Worker& worker) {
  const MessageHeader& header = message.header;
  switch (header.kind) {
    case MessageKind::kPush:
    case MessageKind::kPushPull:
    case MessageKind::kPushAverage:
      return push(from, message, worker);
    case MessageKind::kPull:
      return pull(from, message);
    case MessageKind::kClock:
      round_.advance(from, header.clock);
      return finish({.worker = from, .request = header, .mark = replication_.changed()});
    case MessageKind::kReadState:
      return read_state(from, message);
    case MessageKind::kWriteState:
    case MessageKind::kSetVersion:
      return write(from, message, worker);
    default:
      return refuse(from, header,
                    {.code = ErrorCode::kCorrupt,
                     .message = fmt::format("a part is not asked for kind {}",
                                            static_cast<int>(header.kind))});
  }
}

Result<PartPayload> TablePart::payload_of(std::span<const std::byte> bytes, bool has_values,
                                          bool check_keys) const {
  return read_payload(bytes, {.kind = config_.spec.kind,
                              .part = index_,
                              .parts = config_.parts,
                              .dimension = config_.spec.dimension,
                              .value_bytes = value_bytes_,
                              .has_values = has_values,
                              .check_keys = check_keys});
}

Result<PartPayload> TablePart::pushed_by(const Message& message) const {
  const MessageHeader& header = message.header;
  if (config_.codec == nullptr ||
      header.push_kind != static_cast<std::uint8_t>(PushKind::kGradient))
    return payload_of(message.payload, true, true);
  return read_encoded(message.payload, *config_.codec,
                      {.place = {.version = header.version,
                                 .first = std::uint64_t{index_} * elements_of(config_.spec, 0)},
                       .count = value_bytes_ / sizeof(float),
                       .weight = header.weight,
                       .is_shared = message.stays});
}

void TablePart::install(const ChainPosition& position, const std::vector<WorkerInfo>& workers) {
  exclusively([&] {
    const ChainPosition before = std::exchange(position_, position);
    update_members(workers);
    if (position.predecessor != before.predecessor) {
      incoming_.reset();
      owed_ack_.reset();
    }
    if (position.role == ChainPosition::Role::kNone) {
      leave_primary();
    } else if (presence_ == Presence::kElsewhere) {
      presence_ = Presence::kAbsent;
    }
    if (position.role == ChainPosition::Role::kPrimary && presence_ == Presence::kAbsent)
      presence_ = Presence::kLost;
    if (position.successor != replication_.peer()) {
      forget_sent();
      end_fill();
      touched_keys_.clear();
      refusal_.reset();
      replication_.set_peer(position.successor, position.successor_state);
      if (position.is_linked) replication_.linked();
    }
    run_due();
  });
}

void TablePart::update_members(const std::vector<WorkerInfo>& workers) {
  for (auto known = workers_.begin(); known != workers_.end();) {
    const NodeId id = known->first;
    const auto place =
        std::lower_bound(workers.begin(), workers.end(), id,
                         [](const WorkerInfo& worker, NodeId other) { return worker.id < other; });
    const bool stays = place != workers.end() && place->id == id;
    if (stays) {
      ++known;
      continue;
    }
    round_.leave(id);
    std::erase_if(waiting_, [id](const PendingRequest& waiting) { return waiting.worker == id; });
    known = workers_.erase(known);
  }
  for (const WorkerInfo& worker : workers) {
    round_.join(worker.id, worker.rank);
    workers_.try_emplace(worker.id);
  }
}

// Somebody else answers from now on.
void TablePart::leave_primary() {
  for (const PendingRequest& waiting : std::exchange(waiting_, {}))
    answer_plain(waiting.worker, waiting.request, Outcome::kNotPrimary);
  held_.clear();
  const Error gone{.code = ErrorCode::kPeerLost, .message = "this server serves no more"};
  for (const auto& [mark, call] : std::exchange(when_safe_, {})) call(gone);
}

void TablePart::linked(NodeId peer) {
  exclusively([&] {
    if (peer == replication_.peer()) replication_.linked();
  });
}

void TablePart::lost(NodeId peer) {
  exclusively([&] {
    if (peer == replication_.peer()) {
      forget_sent();
      end_fill();
      told_spec_ = kNoNode;
      replication_.lost();
    }
    if (peer == position_.predecessor) {
      incoming_.reset();
      owed_ack_.reset();
    }
    std::erase_if(waiting_,
                  [peer](const PendingRequest& waiting) { return waiting.worker == peer; });
    keep_held(peer);
  });
}

// The worker's memory goes; what it has given to a round stays. It may have used that memory for
// something else by now: bytes that are no gradient any more are taken out of their round.
void TablePart::keep_held(NodeId worker) {
  if (config_.codec != nullptr) return;
  std::vector<policy::Offer> spoilt;
  for (Contribution& held : held_) {
    if (held.offer.worker != worker || !held.owned.empty()) continue;
    held.owned.assign(held.bytes.begin(), held.bytes.end());
    held.bytes = held.owned;
    auto payload = payload_of(held.owned, true, true);
    if (payload) {
      held.payload = std::move(*payload);
    } else {
      spoilt.push_back(held.offer);
    }
  }
  for (const policy::Offer& offer : spoilt) {
    round_.withdraw(offer);
    settle_held(offer, Outcome::kDropped);
  }
}

void TablePart::add_size(Client::Size& sum) {
  const std::unique_lock lock(gate_);
  if (position_.role != ChainPosition::Role::kPrimary || presence_ != Presence::kPresent) return;
  sum.elements += storage_->elements();
  sum.bytes += storage_->bytes();
  sum.updates += round_.version();
  sum.dropped += dropped_;
  const auto& bins = round_.staleness().bins();
  sum.staleness.resize(bins.size());
  for (std::size_t i = 0; i < bins.size(); ++i) sum.staleness[i] += bins[i];
}

bool TablePart::is_primary() const {
  const std::shared_lock lock(gate_);
  return position_.role == ChainPosition::Role::kPrimary;
}

std::optional<TablePart::Copy> TablePart::copy(std::size_t max_piece_bytes) {
  const std::unique_lock lock(gate_);
  if (position_.role != ChainPosition::Role::kPrimary || presence_ != Presence::kPresent) return {};
  return Copy{.version = round_.version(), .pieces = storage_->pieces({}, true, max_piece_bytes)};
}

void TablePart::pull(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  auto payload = payload_of(message.payload, false, true);
  if (!payload) return refuse(from, header, payload.error());
  PendingRequest waiting{.worker = from,
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

void TablePart::read_state(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  if (config_.spec.kind != TableKind::kDense)
    return refuse(from, header,
                  {.code = ErrorCode::kInvalid, .message = "only dense tables show their state"});
  std::vector<std::byte> state(value_bytes_);
  if (auto read = storage_->read_state(header.push_kind, state); !read)
    return refuse(from, header, read.error());
  answer_plain(from, header, Outcome::kDone, std::move(state));
}

// Who had to wait for others to read gets an answer when what they did is safe, like they do: if
// one were answered before the other it could push again, and the other would read more than it.
bool TablePart::is_ready(PendingRequest& waiting) const {
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

void TablePart::finish(PendingRequest waiting) {
  if (is_ready(waiting)) return answer(waiting);
  // Asked again: the earlier question is forgotten.
  const auto same =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const PendingRequest& other) {
        return other.worker == waiting.worker && other.request.sequence == waiting.request.sequence;
      });
  if (same != waiting_.end()) {
    *same = std::move(waiting);
  } else {
    waiting_.push_back(std::move(waiting));
  }
}

void TablePart::answer_ready() {
  if (waiting_.empty()) return;
  std::vector<PendingRequest> ready;
  std::vector<PendingRequest> unsafe;
  std::erase_if(waiting_, [&](PendingRequest& waiting) {
    const bool is_over = is_ready(waiting);
    const bool is_refused = refusal_ && !replication_.is_safe(waiting.mark);
    if (!is_over && !is_refused) return false;
    (is_over ? ready : unsafe).push_back(std::move(waiting));
    return true;
  });
  for (PendingRequest& waiting : ready) answer(waiting);
  for (const PendingRequest& waiting : unsafe) refuse(waiting.worker, waiting.request, *refusal_);
}

void TablePart::answer(PendingRequest& waiting) {
  MessageHeader header = answer_header(waiting.request, waiting.outcome);
  header.least_clock = waiting.staleness;
  if (!waiting.wants_values) return context_.transport.send(waiting.worker, header, {});
  if (has_average_for(waiting)) {
    const auto average = storage_->average();
    header.push_kind = kAverage;
    return context_.transport.send(waiting.worker, header, {average.begin(), average.end()});
  }
  const std::size_t bytes = storage_->value_bytes(waiting.keys.size());
  const bool in_place = !waiting.reply.empty() && waiting.reply.size() >= bytes;
  std::vector<std::byte> owned = context_.transport.buffer(in_place ? 0 : bytes);
  const std::span<std::byte> out = in_place ? waiting.reply.first(bytes) : std::span(owned);
  const auto read =
      in_place ? storage_->read_for_others(waiting.keys, out) : storage_->read(waiting.keys, out);
  if (!read) return refuse(waiting.worker, waiting.request, read.error());
  if (config_.rules.stale == plan::Stale::kCompensate && config_.spec.kind == TableKind::kDense) {
    const auto worker = workers_.find(waiting.worker);
    if (worker != workers_.end()) worker->second.backup.assign(out.begin(), out.end());
  }
  if (in_place) return context_.transport.send_written(waiting.worker, header, bytes);
  context_.transport.send(waiting.worker, header, std::move(owned));
}

// It has the values that the average was added to, and none has come since.
bool TablePart::has_average_for(const PendingRequest& waiting) const {
  return waiting.request.kind == MessageKind::kPushAverage && waiting.outcome == Outcome::kDone &&
         average_version_ != 0 && average_version_ == round_.version() &&
         average_version_ == waiting.request.version + 1;
}

MessageHeader TablePart::answer_header(const MessageHeader& request, Outcome outcome) const {
  return {.kind = MessageKind::kAnswer,
          .outcome = outcome,
          .table = config_.id,
          .part = index_,
          .view = position_.view,
          .sequence = request.sequence,
          .clock = round_.slowest_clock(),
          .version = round_.version()};
}

void TablePart::answer_plain(NodeId to, const MessageHeader& request, Outcome outcome,
                             std::vector<std::byte> payload) {
  context_.transport.send(to, answer_header(request, outcome), std::move(payload));
}

void TablePart::refuse(NodeId to, const MessageHeader& request, const Error& why) {
  answer_plain(to, request, Outcome::kRefused, wire::encode_error(why));
}

}  // namespace tally::server
