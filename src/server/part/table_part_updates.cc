// Updates of a part: pushes, rounds, and writes of state.
//
// The policy (policy::Round) decides for each gradient: apply it now, drop it, or hold it until its
// round is complete. run_due() applies complete rounds. PushHistory makes every push count once,
// however often it is sent.
#include <algorithm>
#include <set>

#include "server/part/table_part.h"
#include "server/protocol/message.h"

namespace tally::server {
namespace {

Result<void> check_push(const MessageHeader& header) {
  if (header.sequence == 0) return corrupt("a push without a number");
  if (header.push_kind > static_cast<std::uint8_t>(PushKind::kAssign))
    return corrupt("a push of unknown kind {}", header.push_kind);
  if (!(header.weight >= 0)) return corrupt("a push of weight {}", header.weight);
  return {};
}

}  // namespace

void TablePart::push(NodeId from, const Message& message, Worker& worker) {
  const MessageHeader& header = message.header;
  if (auto fine = check_push(header); !fine) return refuse(from, header, fine.error());
  auto payload = read_push(message, config_, index_);
  if (!payload) return refuse(from, header, payload.error());
  PendingRequest pending{.worker = from, .request = header, .reply = message.reply};
  pending.wants_values = header.kind != MessageKind::kPush;
  if (pending.wants_values) pending.keys.assign(payload->keys.begin(), payload->keys.end());

  switch (worker.history.state(header.sequence)) {
    case PushHistory::State::kApplied:
      pending.mark = replication_.marks();
      return finish(std::move(pending));
    case PushHistory::State::kDropped:
      pending.mark = replication_.marks();
      pending.outcome = Outcome::kDropped;
      return finish(std::move(pending));
    case PushHistory::State::kHeld:
      // A push that only the former primary held is handled as a new one.
      pending.is_held = std::any_of(held_.begin(), held_.end(), [&](const Contribution& held) {
        return held.offer.worker == from && held.sequence == header.sequence;
      });
      if (pending.is_held) return finish(std::move(pending));
      break;
    case PushHistory::State::kNew:
      break;
  }
  if (auto done = apply_new(from, message, std::move(*payload), worker, pending); !done) {
    // Later pushes may be applied, so this one is marked: sent again, it must not count as applied.
    worker.history.drop(header.sequence);
    replication_.changed();
    return refuse(from, header, done.error());
  }
  finish(std::move(pending));
  run_due();
}

Result<void> TablePart::apply_new(NodeId from, const Message& message, PartPayload payload,
                                  Worker& worker, PendingRequest& pending) {
  const MessageHeader& header = message.header;
  const auto kind = static_cast<PushKind>(header.push_kind);
  if (kind == PushKind::kGradient) return offer(from, message, std::move(payload), worker, pending);
  const Gradient values{.keys = payload.keys, .values = payload.values, .weight = header.weight};
  TALLY_TRY(kind == PushKind::kAdd ? storage_->add(values) : storage_->assign(values));
  round_.advance(from, header.clock);
  worker.history.apply(header.sequence);
  pending.mark = touched(payload.keys);
  return {};
}

Result<void> TablePart::offer(NodeId from, const Message& message, PartPayload payload,
                              Worker& worker, PendingRequest& pending) {
  const MessageHeader& header = message.header;
  if (!make_room(from, header.sequence, worker))
    return make_error(ErrorCode::kExhausted, "{} gradients of this worker wait for their round",
                      worker.history.held().size());
  const policy::Offer offer{.worker = from, .clock = header.clock, .version = header.version};
  switch (round_.offer(offer)) {
    case policy::Decision::kDrop:
      worker.history.drop(header.sequence);
      ++dropped_;
      pending.outcome = Outcome::kDropped;
      pending.mark = replication_.changed();
      return {};
    case policy::Decision::kHold:
      hold(offer, message, std::move(payload));
      worker.history.hold(header.sequence);
      pending.is_held = true;
      return {};
    case policy::Decision::kApply:
      break;
  }
  pending.staleness = round_.staleness_of(offer);
  const Gradient gradient{.keys = payload.keys, .values = payload.values, .weight = header.weight};
  TALLY_TRY(storage_->apply(std::span(&gradient, 1),
                            apply_options(header.rate, pending.staleness, &worker)));
  round_.applied(offer, pending.staleness);
  worker.history.apply(header.sequence);
  pending.mark = touched(payload.keys);
  return {};
}

// Whether one more push of the worker may be held. Pushes that the former primary held are sent
// again before new ones and keep their place; the worker gave up those that did not come again.
bool TablePart::make_room(NodeId from, std::uint64_t sequence, Worker& worker) const {
  PushHistory& history = worker.history;
  if (history.state(sequence) == PushHistory::State::kHeld) return true;
  if (history.held().size() < PushHistory::kMaxHeld) return true;
  std::set<std::uint64_t> here;
  for (const Contribution& held : held_)
    if (held.offer.worker == from) here.insert(held.sequence);
  const std::vector<std::uint64_t> known(history.held().begin(), history.held().end());
  for (const std::uint64_t held : known)
    if (!here.contains(held)) history.drop(held);
  return history.held().size() < PushHistory::kMaxHeld;
}

ApplyOptions TablePart::apply_options(double rate, std::uint64_t staleness,
                                      const Worker* worker) const {
  ApplyOptions config{.rate = rate * round_.rate_factor(staleness), .version = round_.version()};
  // Without a backup the gradient counts as computed at the present values.
  if (config_.rules.stale != plan::Stale::kCompensate || worker == nullptr ||
      worker->backup.size() != value_bytes_)
    return config;
  config.compensation = config_.rules.compensation;
  config.adaptive = config_.rules.adaptive;
  config.backup = worker->backup;
  return config;
}

std::uint64_t TablePart::touched(std::span<const std::uint64_t> keys) {
  values_changed_ = true;
  average_version_ = 0;
  if (replication_.is_waited_for())
    touched_keys_.insert(touched_keys_.end(), keys.begin(), keys.end());
  return replication_.changed();
}

void TablePart::hold(const policy::Offer& offer, const Message& message, PartPayload payload) {
  // Of two gradients of one version the later one counts.
  const bool by_clock = config_.rules.update == plan::Update::kKbatch;
  const auto replaced = std::find_if(held_.begin(), held_.end(), [&](const Contribution& held) {
    return held.offer.worker == offer.worker && held.offer.version == offer.version &&
           (!by_clock || held.offer.clock == offer.clock);
  });
  if (replaced != held_.end()) settle_held(replaced->offer, Outcome::kDropped);

  Contribution held{.offer = offer,
                    .sequence = message.header.sequence,
                    .weight = message.header.weight,
                    .rate = message.header.rate,
                    .payload = std::move(payload),
                    .bytes = message.payload};
  if (config_.codec != nullptr) {
    held.bytes = {};
  } else if (!message.stays) {
    held.owned.assign(message.payload.begin(), message.payload.end());
    held.bytes = held.owned;
    auto copied = read_payload(held.owned, config_, index_, {.check_keys = false});
    if (copied) held.payload = std::move(*copied);
  }
  held_.push_back(std::move(held));
}

void TablePart::run_due() {
  if (position_.role != ChainPosition::Role::kPrimary || presence_ != Presence::kPresent) return;
  for (;;) {
    const policy::Round::Due due = round_.due();
    if (due.nothing()) return;
    if (!due.counted.empty()) apply_round(due.counted);
    for (const policy::Offer& offer : due.dropped) settle_held(offer, Outcome::kDropped);
    if (due.passed_over > 0) replication_.changed();
  }
}

void TablePart::apply_round(const std::vector<policy::Offer>& counted) {
  std::vector<Gradient> gradients;
  std::vector<std::uint64_t> keys;
  double rate = 0;
  for (const policy::Offer& offer : counted) {
    const auto held = find_held(offer);
    if (held == held_.end()) continue;
    if (gradients.empty()) rate = held->rate;
    gradients.push_back(
        {.keys = held->payload.keys, .values = held->payload.values, .weight = held->weight});
    keys.insert(keys.end(), held->payload.keys.begin(), held->payload.keys.end());
  }
  const auto applied = storage_->apply(gradients, apply_options(rate, 0, nullptr));
  if (!applied) {
    for (const policy::Offer& offer : counted) refuse_held(offer, applied.error());
    return;
  }
  round_.applied(counted);
  touched(keys);
  if (!storage_->average().empty()) average_version_ = round_.version();
  for (const policy::Offer& offer : counted) settle_held(offer, Outcome::kDone);
  tell_late(counted);
}

std::vector<TablePart::Contribution>::iterator TablePart::find_held(const policy::Offer& offer) {
  return std::find_if(held_.begin(), held_.end(),
                      [&](const Contribution& held) { return held.offer == offer; });
}

// Ends a contribution: its push is answered when the outcome is safe.
void TablePart::settle_held(const policy::Offer& offer, Outcome outcome) {
  const auto held = find_held(offer);
  if (held == held_.end()) return;
  if (const auto worker = workers_.find(offer.worker); worker != workers_.end()) {
    if (outcome == Outcome::kDone) {
      worker->second.history.apply(held->sequence);
    } else {
      worker->second.history.drop(held->sequence);
    }
  }
  if (outcome == Outcome::kDropped) {
    ++dropped_;
    replication_.changed();
  }
  for (PendingRequest& pending : pending_) {
    if (pending.worker != offer.worker || pending.request.sequence != held->sequence) continue;
    pending.is_held = false;
    pending.outcome = outcome;
    pending.mark = replication_.marks();
  }
  held_.erase(held);
}

// Drops gradients that wait for a later version: after a restore their workers would count as
// ahead of it.
void TablePart::drop_held() {
  std::vector<policy::Offer> offers;
  for (const Contribution& held : held_) offers.push_back(held.offer);
  for (const policy::Offer& offer : offers) {
    round_.withdraw(offer);
    settle_held(offer, Outcome::kDropped);
  }
}

void TablePart::refuse_held(const policy::Offer& offer, const Error& why) {
  const auto held = find_held(offer);
  if (held == held_.end()) return;
  const std::uint64_t sequence = held->sequence;
  for (const PendingRequest& pending : pending_)
    if (pending.worker == offer.worker && pending.request.sequence == sequence)
      refuse(pending.worker, pending.request, why);
  std::erase_if(pending_, [&](const PendingRequest& pending) {
    return pending.worker == offer.worker && pending.request.sequence == sequence;
  });
  settle_held(offer, Outcome::kDropped);
}

// Rounds that do not wait for all workers: tells the late ones that their gradients of this round
// come too late.
void TablePart::tell_late(const std::vector<policy::Offer>& counted) {
  if (config_.rules.update != plan::Update::kBackup &&
      config_.rules.update != plan::Update::kKbatch)
    return;
  const MessageHeader closed{.kind = MessageKind::kClosed,
                             .table = config_.id,
                             .part = index_,
                             .view = position_.view,
                             .version = round_.version()};
  for (const auto& [id, worker] : workers_) {
    const bool was_in_time =
        std::any_of(counted.begin(), counted.end(),
                    [&, worker_id = id](const auto& offer) { return offer.worker == worker_id; });
    if (!was_in_time) context_.transport.send(id, closed, {});
  }
}

void TablePart::write(NodeId from, const Message& message, Worker& worker) {
  const MessageHeader& header = message.header;
  const bool is_version = header.kind == MessageKind::kSetVersion;
  // The same request is refused again, whenever it is repeated.
  if (!is_version &&
      (config_.spec.kind != TableKind::kDense || message.payload.size() != value_bytes_))
    return refuse(from, header,
                  corrupt("{} bytes of state for part {}, which has {}", message.payload.size(),
                          index_, value_bytes_));
  PendingRequest pending{.worker = from, .request = header, .mark = replication_.marks()};
  const PushHistory::State standing = worker.history.state(header.sequence);
  if (standing == PushHistory::State::kDropped)
    return refuse(from, header, corrupt("state that was refused before"));
  if (standing != PushHistory::State::kNew) return finish(std::move(pending));
  if (is_version) {
    drop_held();
    round_.set_version(header.version);
    storage_->set_steps(header.version);
  } else if (auto done = storage_->write_state(header.push_kind, message.payload); !done) {
    worker.history.drop(header.sequence);
    replication_.changed();
    return refuse(from, header, done.error());
  }
  pending.mark = touched({});
  worker.history.apply(header.sequence);
  finish(std::move(pending));
  run_due();
}

// conflict=atomic: pushes that commute hold mutex_ shared and add to the values by atomic
// additions. They change the other members under push_mutex_, one at a time. A record needs mutex_
// alone, so its metadata and values are of the same pushes. Returns false, with nothing changed,
// for a push that must be handled with mutex_ held alone. The analysis cannot express "mutex_
// shared and push_mutex_".
bool TablePart::push_atomically(NodeId from,
                                const Message& message) TALLY_NO_THREAD_SAFETY_ANALYSIS {
  const MessageHeader& header = message.header;
  const bool is_gradient = header.push_kind == static_cast<std::uint8_t>(PushKind::kGradient);
  const bool is_add = header.push_kind == static_cast<std::uint8_t>(PushKind::kAdd);
  if (!is_add && !(is_gradient && config_.gradients_commute)) return false;
  if (header.sequence == 0 || !(header.weight > 0)) return false;
  auto payload = read_push(message, config_, index_);
  if (!payload) return false;

  PendingRequest pending{.worker = from, .request = header, .reply = message.reply};
  std::optional<MessageHeader> answer;
  {
    const SharedLock lock(mutex_);
    if (position_.role != ChainPosition::Role::kPrimary || presence_ != Presence::kPresent)
      return false;
    const policy::Offer offer{.worker = from, .clock = header.clock, .version = header.version};
    double factor = 1;
    {
      const MutexLock bookkeeping(push_mutex_);
      const auto worker = workers_.find(from);
      if (worker == workers_.end() ||
          worker->second.history.state(header.sequence) != PushHistory::State::kNew)
        return false;
      // A gradient that drop:T drops needs mutex_ alone. A decision to apply stays valid while
      // other pushes are added.
      if (is_gradient && round_.offer(offer) != policy::Decision::kApply) return false;
      if (is_gradient) pending.staleness = round_.staleness_of(offer);
      if (is_gradient) factor = -header.rate * round_.rate_factor(pending.staleness);
    }
    // Adds nothing where rows are missing: they are made with mutex_ held alone.
    if (!storage_->add_atomically({.keys = payload->keys, .values = payload->values}, factor))
      return false;
    const MutexLock bookkeeping(push_mutex_);
    if (is_gradient) {
      round_.applied(offer, pending.staleness);
    } else {
      round_.advance(from, header.clock);
    }
    workers_.find(from)->second.history.apply(header.sequence);
    pending.mark = touched(payload->keys);
    pending.wants_values = header.kind != MessageKind::kPush;
    if (pending.wants_values) pending.keys.assign(payload->keys.begin(), payload->keys.end());
    if (!pending.wants_values && replication_.is_safe(pending.mark) && pending_.empty()) {
      answer = answer_header(header, Outcome::kDone);
      answer->least_clock = pending.staleness;
    } else {
      pending_.push_back(std::move(pending));
    }
  }
  if (answer) {
    context_.transport.send(from, *answer, {});
  } else {
    exclusively([] {});
  }
  return true;
}

}  // namespace tally::server
