// Requests and answers of a part.
//
// A push is answered when its update is *safe*: all copies have it (Replication). A pull is
// answered when the policy lets its worker read. Both wait in pending_ until then; proceed() runs
// after every change and answers the requests that are ready.
//
// conflict=lock: a push waits for mutex_. conflict=accumulate: a push that finds mutex_ taken is
// deferred, and the thread that holds mutex_ runs all deferred pushes together before and after its
// own work (drain()). conflict=atomic: see push_atomically().
#include "server/part/table_part.h"

#include <algorithm>

#include "server/protocol/payloads.h"
#include "server/protocol/view.h"
#include "wire/error_body.h"

namespace tally::server {

TablePart::TablePart(const TableConfig& config, std::uint32_t index, const PartContext& context)
    : config_(config),
      index_(index),
      slot_(slot_of(config.id, index, config.slots)),
      context_(context),
      value_bytes_(config.spec.kind == TableKind::kDense ? value_bytes(config.spec, index) : 0),
      round_(config.rules) {}

Result<void> TablePart::make_present() {
  const ExclusiveLock lock(mutex_);
  TALLY_TRY(ensure_storage());
  presence_ = Presence::kPresent;
  return {};
}

void TablePart::await_record() {
  const ExclusiveLock lock(mutex_);
  if (presence_ == Presence::kElsewhere) presence_ = Presence::kAbsent;
  is_listed_ = true;
}

Result<void> TablePart::end_of_listing() {
  {
    const ExclusiveLock lock(mutex_);
    if (presence_ != Presence::kAbsent || is_listed_) return {};
  }
  return make_present();
}

void TablePart::run_deferred() {
  while (has_deferred_.load(std::memory_order_acquire)) {
    std::deque<KeptMessage> batch;
    {
      const MutexLock lock(push_mutex_);
      batch.swap(deferred_);
      has_deferred_.store(false, std::memory_order_release);
    }
    if (push_together(batch)) continue;
    for (const KeptMessage& deferred : batch) handle(deferred.from, deferred.message);
  }
}

// Runs deferred pushes after mutex_ was released. A thread that defers a push just before that
// release either takes mutex_ here itself, or this thread sees the push. A thread that holds
// mutex_ shared runs no pushes: then the part goes to deferred_parts.
void TablePart::drain() {
  while (has_deferred_.load(std::memory_order_acquire)) {
    if (!mutex_.try_lock()) {
      if (!is_in_deferred_parts_.exchange(true)) context_.deferred_parts.add(*this);
      return;
    }
    run_deferred();
    proceed();
    mutex_.unlock();
  }
}

void TablePart::run_deferred_pushes() {
  is_in_deferred_parts_.exchange(false);
  exclusively([] {});
}

void TablePart::defer(NodeId from, const Message& message) {
  KeptMessage deferred(from, message);
  const MutexLock lock(push_mutex_);
  deferred_.push_back(std::move(deferred));
  has_deferred_.store(true, std::memory_order_release);
}

void TablePart::request(NodeId from, const Message& message) {
  if (is_push(message.header.kind)) {
    if (config_.rules.conflict == plan::Conflict::kAtomic && push_atomically(from, message)) return;
    if (config_.rules.conflict == plan::Conflict::kAccumulate) {
      if (mutex_.try_lock()) {
        run_deferred();
        handle(from, message);
        proceed();
        mutex_.unlock();
      } else {
        defer(from, message);
      }
      return drain();
    }
  }
  exclusively([&]() TALLY_REQUIRES(mutex_) { handle(from, message); });
}

void TablePart::handle(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  if (position_.role != ChainPosition::Role::kPrimary)
    return answer_plain(from, header, Outcome::kNotPrimary);
  if (presence_ != Presence::kPresent) {
    return answer_plain(from, header, Outcome::kLost, encode_text(context_.snapshot.path()));
  }
  const auto worker = workers_.find(from);
  if (worker == workers_.end())
    return refuse(from, header,
                  make_error(ErrorCode::kClosed, "node {} is not a worker of this job", from));
  switch (header.kind) {
    case MessageKind::kPush:
    case MessageKind::kPushPull:
    case MessageKind::kPushAverage:
      return push(from, message, worker->second);
    case MessageKind::kPull:
      return pull(from, message);
    case MessageKind::kClock:
      round_.advance(from, header.clock);
      return finish({.worker = from, .request = header, .mark = replication_.changed()});
    case MessageKind::kReadState:
      return read_state(from, message);
    case MessageKind::kMeasure:
      return measure(from, message);
    case MessageKind::kFinish:
      return take_finish(from, message);
    case MessageKind::kWriteState:
    case MessageKind::kSetVersion:
      return write(from, message, worker->second);
    default:
      return refuse(from, header,
                    corrupt("a part takes no message of kind {}", static_cast<int>(header.kind)));
  }
}

void TablePart::install(const ChainPosition& position, const std::vector<WorkerInfo>& workers) {
  exclusively([&]() TALLY_REQUIRES(mutex_) {
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
  std::erase_if(workers_, [&](const auto& known) TALLY_REQUIRES(mutex_) {
    const NodeId id = known.first;
    const auto place =
        std::lower_bound(workers.begin(), workers.end(), id,
                         [](const WorkerInfo& worker, NodeId other) { return worker.id < other; });
    if (place != workers.end() && place->id == id) return false;
    round_.leave(id);
    std::erase_if(pending_, [id](const PendingRequest& pending) { return pending.worker == id; });
    return true;
  });
  for (const WorkerInfo& worker : workers) {
    round_.join(worker.id, worker.rank);
    workers_.try_emplace(worker.id);
  }
}

// Another server answers from now on.
void TablePart::leave_primary() {
  for (const PendingRequest& pending : std::exchange(pending_, {}))
    answer_plain(pending.worker, pending.request, Outcome::kNotPrimary);
  held_.clear();
  forget_round();
  const Error gone{.code = ErrorCode::kPeerLost, .message = "this server serves no more"};
  for (const auto& [mark, call] : std::exchange(when_safe_, {})) call(gone);
}

void TablePart::linked(NodeId peer) {
  exclusively([&]() TALLY_REQUIRES(mutex_) {
    if (peer == replication_.peer()) replication_.linked();
  });
}

void TablePart::lost(NodeId peer) {
  exclusively([&]() TALLY_REQUIRES(mutex_) {
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
    std::erase_if(pending_,
                  [peer](const PendingRequest& pending) { return pending.worker == peer; });
    keep_held(peer);
  });
}

// The link to the worker is lost, and with it the worker's memory: copies the gradients that wait
// for a round. The worker may have reused that memory already; bytes that are no gradient any more
// are taken out of their round.
void TablePart::keep_held(NodeId worker) {
  if (config_.codec != nullptr) return;
  std::vector<policy::Offer> spoilt;
  for (Contribution& held : held_) {
    // A gathered round has its mean and its keys, and reads no gradients any more.
    const bool is_gathered =
        gathered_ && std::find(gathered_->counted.begin(), gathered_->counted.end(), held.offer) !=
                         gathered_->counted.end();
    if (held.offer.worker != worker || !held.owned.empty() || is_gathered) continue;
    held.owned.assign(held.bytes.begin(), held.bytes.end());
    held.bytes = held.owned;
    auto payload = read_payload(held.owned, config_, index_, {});
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
  const ExclusiveLock lock(mutex_);
  if (position_.role != ChainPosition::Role::kPrimary || presence_ != Presence::kPresent) return;
  sum.elements += storage_->elements();
  sum.bytes += storage_->bytes();
  sum.updates += round_.version();
  sum.dropped += dropped_;
  const auto& bins = round_.staleness().bins();
  sum.staleness.resize(bins.size());
  for (std::size_t i = 0; i < bins.size(); ++i) sum.staleness[i] += bins[i];
}

std::optional<TablePart::Copy> TablePart::copy(std::size_t max_piece_bytes) {
  const ExclusiveLock lock(mutex_);
  if (position_.role != ChainPosition::Role::kPrimary || presence_ != Presence::kPresent) return {};
  return Copy{.version = round_.version(), .pieces = storage_->pieces({}, true, max_piece_bytes)};
}

void TablePart::pull(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  auto payload = read_payload(message.payload, config_, index_, {.has_values = false});
  if (!payload) return refuse(from, header, payload.error());
  PendingRequest pending{.worker = from,
                         .request = header,
                         .reply = message.reply,
                         .keys = {payload->keys.begin(), payload->keys.end()},
                         .wants_values = true};
  // A worker that waits for a version sends no more gradients of older versions: a round may be
  // complete without them.
  if (!round_.may_read(header.least_version, header.least_clock)) {
    round_.pass(from, header.least_version);
    run_due();
  }
  finish(std::move(pending));
}

void TablePart::read_state(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  if (config_.spec.kind != TableKind::kDense)
    return refuse(from, header, invalid("only dense tables have state that can be read"));
  std::vector<std::byte> state(value_bytes_);
  if (auto read = storage_->read_state(header.push_kind, state); !read)
    return refuse(from, header, read.error());
  answer_plain(from, header, Outcome::kDone, std::move(state));
}

// A pull that waited for other workers is answered once their updates are safe, together with their
// pushes. If a push were answered before the pull, its worker could push again, and the pull would
// read that push as well.
bool TablePart::is_ready(PendingRequest& pending) const {
  if (pending.is_held) return false;
  if (pending.refusal) return replication_.is_safe(pending.mark);
  if (pending.request.kind == MessageKind::kMeasure) return is_measurable(pending);
  const bool waits = pending.wants_values || pending.request.kind == MessageKind::kFinish;
  if (waits && !pending.is_readable) {
    if (!round_.may_read(pending.request.least_version, pending.request.least_clock)) {
      pending.had_to_wait = true;
      return false;
    }
    pending.is_readable = true;
    if (pending.had_to_wait) pending.mark = replication_.marks();
  }
  return replication_.is_safe(pending.mark);
}

void TablePart::finish(PendingRequest pending) {
  if (is_ready(pending)) return answer(pending);
  // A repeated request replaces the earlier one.
  const auto same =
      std::find_if(pending_.begin(), pending_.end(), [&](const PendingRequest& other) {
        return other.worker == pending.worker && other.request.sequence == pending.request.sequence;
      });
  if (same != pending_.end()) {
    *same = std::move(pending);
  } else {
    pending_.push_back(std::move(pending));
  }
}

void TablePart::answer_ready() {
  if (pending_.empty()) return;
  std::vector<PendingRequest> ready;
  std::vector<PendingRequest> unsafe;
  std::erase_if(pending_, [&](PendingRequest& pending) TALLY_REQUIRES(mutex_) {
    const bool is_over = is_ready(pending);
    const bool is_refused = refusal_ && !replication_.is_safe(pending.mark);
    if (!is_over && !is_refused) return false;
    (is_over ? ready : unsafe).push_back(std::move(pending));
    return true;
  });
  for (PendingRequest& pending : ready) answer(pending);
  for (const PendingRequest& pending : unsafe) refuse(pending.worker, pending.request, *refusal_);
}

void TablePart::answer(PendingRequest& pending) {
  MessageHeader header = answer_header(pending.request, pending.outcome);
  header.least_clock = pending.staleness;
  if (pending.refusal) return refuse(pending.worker, pending.request, *pending.refusal);
  const MessageKind kind = pending.request.kind;
  if (kind == MessageKind::kMeasure || kind == MessageKind::kFinish)
    return context_.transport.send(pending.worker, header, encode(measured(pending)));
  if (!pending.wants_values) return context_.transport.send(pending.worker, header, {});
  if (has_average_for(pending)) {
    const auto average = storage_->average();
    header.push_kind = kAverage;
    return context_.transport.send(pending.worker, header, {average.begin(), average.end()});
  }
  const std::size_t bytes = storage_->value_bytes(pending.keys.size());
  const bool in_place = !pending.reply.empty() && pending.reply.size() >= bytes;
  std::vector<std::byte> owned = context_.transport.buffer(in_place ? 0 : bytes);
  const std::span<std::byte> out = in_place ? pending.reply.first(bytes) : std::span(owned);
  const auto read =
      in_place ? storage_->read_for_others(pending.keys, out) : storage_->read(pending.keys, out);
  if (!read) return refuse(pending.worker, pending.request, read.error());
  if (config_.rules.stale == plan::Stale::kCompensate && config_.spec.kind == TableKind::kDense) {
    const auto worker = workers_.find(pending.worker);
    if (worker != workers_.end()) worker->second.backup.assign(out.begin(), out.end());
  }
  if (in_place) return context_.transport.send_written(pending.worker, header, bytes);
  context_.transport.send(pending.worker, header, std::move(owned));
}

// Whether the worker has the values that the average was added to, and no other update came since.
bool TablePart::has_average_for(const PendingRequest& pending) const {
  return pending.request.kind == MessageKind::kPushAverage && pending.outcome == Outcome::kDone &&
         average_version_ != 0 && average_version_ == round_.version() &&
         average_version_ == pending.request.version + 1;
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
