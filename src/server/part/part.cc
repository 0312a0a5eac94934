#include "server/part/part.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/protocol/view.h"

namespace tally::server {
namespace {

bool is_push(MessageKind kind) {
  return kind == MessageKind::kPush || kind == MessageKind::kPushPull ||
         kind == MessageKind::kPushAverage;
}

}  // namespace

Part::Part(const TableFacts& facts, std::uint32_t index, const Surroundings& surroundings)
    : facts_(facts),
      index_(index),
      slot_(slot_of(facts.id, index, facts.slots)),
      around_(surroundings),
      round_(facts.rules) {
  if (facts.spec.kind == TableKind::kDense)
    value_bytes_ = elements_of(facts.spec, index) * size_of(facts.spec.type);
}

Result<void> Part::make_present() {
  const std::unique_lock lock(gate_);
  TALLY_TRY(ensure_storage());
  presence_ = Presence::kPresent;
  return {};
}

void Part::await_record() {
  const std::unique_lock lock(gate_);
  if (presence_ == Presence::kElsewhere) presence_ = Presence::kAbsent;
  is_listed_ = true;
}

Result<void> Part::end_of_listing() {
  {
    const std::unique_lock lock(gate_);
    if (presence_ != Presence::kAbsent || is_listed_) return {};
  }
  return make_present();
}

bool Part::is_lost() const {
  const std::shared_lock lock(gate_);
  return presence_ == Presence::kLost;
}

void Part::run_deferred() {
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
void Part::drain() {
  while (has_deferred_.load(std::memory_order_acquire)) {
    const std::unique_lock lock(gate_, std::try_to_lock);
    if (!lock.owns_lock()) {
      if (!is_left_over_.exchange(true)) around_.left_over.add(*this);
      return;
    }
    run_deferred();
    proceed();
  }
}

void Part::work_off() {
  is_left_over_.exchange(false);
  exclusively([] {});
}

void Part::defer(NodeId from, const Message& message) {
  Deferred deferred{.from = from, .message = message};
  if (!message.stays) {
    deferred.owned.assign(message.payload.begin(), message.payload.end());
    deferred.message.payload = deferred.owned;
  }
  const std::lock_guard lock(mutex_);
  deferred_.push_back(std::move(deferred));
  has_deferred_.store(true, std::memory_order_release);
}

void Part::request(NodeId from, const Message& message) {
  if (is_push(message.header.kind)) {
    if (facts_.rules.conflict == plan::Conflict::kAtomic && push_atomically(from, message)) return;
    if (facts_.rules.conflict == plan::Conflict::kAccumulate) {
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

void Part::handle(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  if (position_.role != Position::Role::kPrimary)
    return answer_plain(from, header, Outcome::kElsewhere);
  if (presence_ != Presence::kPresent) {
    const std::string snapshot = around_.snapshot.path();
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

void Part::handle_admitted(NodeId from, const Message& message, Worker& worker) {
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

Result<PartPayload> Part::payload_of(std::span<const std::byte> bytes, bool has_values,
                                     bool check_keys) const {
  return read_payload(bytes, {.kind = facts_.spec.kind,
                              .part = index_,
                              .parts = facts_.parts,
                              .dimension = facts_.spec.dimension,
                              .value_bytes = value_bytes_,
                              .has_values = has_values,
                              .check_keys = check_keys});
}

Result<PartPayload> Part::pushed_by(const Message& message) const {
  const MessageHeader& header = message.header;
  if (facts_.codec == nullptr || header.push_kind != static_cast<std::uint8_t>(PushKind::kGradient))
    return payload_of(message.payload, true, true);
  return read_encoded(message.payload, *facts_.codec,
                      {.place = {.version = header.version,
                                 .first = std::uint64_t{index_} * elements_of(facts_.spec, 0)},
                       .count = value_bytes_ / sizeof(float),
                       .weight = header.weight,
                       .is_shared = message.stays});
}

void Part::install(const Position& position, const std::vector<WorkerInfo>& workers) {
  exclusively([&] {
    const Position before = std::exchange(position_, position);
    update_members(workers);
    if (position.predecessor != before.predecessor) {
      incoming_.reset();
      owed_.reset();
    }
    if (position.role == Position::Role::kNone) {
      leave_primary();
    } else if (presence_ == Presence::kElsewhere) {
      presence_ = Presence::kAbsent;
    }
    if (position.role == Position::Role::kPrimary && presence_ == Presence::kAbsent)
      presence_ = Presence::kLost;
    if (position.successor != replication_.peer()) {
      forget_sent();
      end_fill();
      touched_keys_.clear();
      refusal_.reset();
      replication_.set_peer(position.successor, position.standing);
      if (position.is_linked) replication_.linked();
    }
    run_due();
  });
}

void Part::update_members(const std::vector<WorkerInfo>& workers) {
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
    std::erase_if(waiting_, [id](const Waiting& waiting) { return waiting.worker == id; });
    known = workers_.erase(known);
  }
  for (const WorkerInfo& worker : workers) {
    round_.join(worker.id, worker.rank);
    workers_.try_emplace(worker.id);
  }
}

// Somebody else answers from now on.
void Part::leave_primary() {
  for (const Waiting& waiting : std::exchange(waiting_, {}))
    answer_plain(waiting.worker, waiting.request, Outcome::kElsewhere);
  held_.clear();
  const Error gone{.code = ErrorCode::kPeerLost, .message = "this server serves no more"};
  for (const auto& [mark, call] : std::exchange(when_safe_, {})) call(gone);
}

void Part::linked(NodeId peer) {
  exclusively([&] {
    if (peer == replication_.peer()) replication_.linked();
  });
}

void Part::lost(NodeId peer) {
  exclusively([&] {
    if (peer == replication_.peer()) {
      forget_sent();
      end_fill();
      told_spec_ = kUnnumbered;
      replication_.lost();
    }
    if (peer == position_.predecessor) {
      incoming_.reset();
      owed_.reset();
    }
    std::erase_if(waiting_, [peer](const Waiting& waiting) { return waiting.worker == peer; });
    keep_held(peer);
  });
}

// The worker's memory goes; what it has given to a round stays. It may have used that memory for
// something else by now: bytes that are no gradient any more are taken out of their round.
void Part::keep_held(NodeId worker) {
  if (facts_.codec != nullptr) return;
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

void Part::add_size(Client::Size& sum) {
  const std::unique_lock lock(gate_);
  if (position_.role != Position::Role::kPrimary || presence_ != Presence::kPresent) return;
  sum.elements += storage_->elements();
  sum.bytes += storage_->bytes();
  sum.updates += round_.version();
  sum.dropped += dropped_;
  const auto& bins = round_.staleness().bins();
  sum.staleness.resize(bins.size());
  for (std::size_t i = 0; i < bins.size(); ++i) sum.staleness[i] += bins[i];
}

bool Part::is_primary() const {
  const std::shared_lock lock(gate_);
  return position_.role == Position::Role::kPrimary;
}

std::optional<Part::Copy> Part::copy(std::size_t max_piece_bytes) {
  const std::unique_lock lock(gate_);
  if (position_.role != Position::Role::kPrimary || presence_ != Presence::kPresent) return {};
  return Copy{.version = round_.version(), .pieces = storage_->pieces({}, true, max_piece_bytes)};
}

}  // namespace tally::server
