// Updates of a part: pushes, and writes of state.
//
// The policy (policy::Round) decides for each gradient: apply it now, drop it, or hold it until its
// round is complete (table_part_rounds.cc). PushHistory makes every push count once, however often
// it is sent.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "server/part/table_part.h"
#include "server/protocol/message.h"

namespace tally::server {
namespace {

Result<void> check_push(const MessageHeader& header) {
  if (header.sequence == 0) return corrupt("a push without a number");
  if (header.push_kind > static_cast<std::uint8_t>(PushKind::kPlainGradient))
    return corrupt("a push of unknown kind {}", header.push_kind);
  if (!std::isfinite(header.weight) || header.weight < 0)
    return corrupt("a push of weight {}", header.weight);
  if (!std::isfinite(header.rate)) return corrupt("a push of learning rate {}", header.rate);
  return {};
}

policy::Offer offer_of(NodeId from, const MessageHeader& header) {
  return {
      .worker = from, .clock = header.clock, .version = header.version, .weight = header.weight};
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
      if (has_failed(from, header.version)) return refuse_when_safe(std::move(pending));
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
  if (is_gradient(header)) return offer(from, message, std::move(payload), worker, pending);
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
  const policy::Offer offer = offer_of(from, header);
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
  const Gradient gradient = gradient_of(offer, payload);
  TALLY_TRY(storage_->apply(std::span(&gradient, 1), apply_options(header.rate)));
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

ApplyOptions TablePart::apply_options(double rate) const {
  ApplyOptions options{.rate = rate, .version = round_.version()};
  if (!config_.rules.has_rounds() || config_.rules.any_version) {
    const policy::OptimizerInTurns in_turns =
        policy::in_turns(config_.rules, config_.spec.optimizer, round_.workers());
    options.optimizer = in_turns.spec;
    options.rate *= in_turns.gain;
  }
  if (config_.rules.stale != plan::Stale::kCompensate) return options;
  options.compensation = config_.rules.compensation;
  options.adaptive = config_.rules.adaptive;
  return options;
}

// Without a backup the gradient counts as computed at the present values.
Gradient TablePart::gradient_of(const policy::Offer& offer, const PartPayload& payload) const {
  Gradient gradient{.keys = payload.keys,
                    .values = payload.values,
                    .weight = offer.weight,
                    .factor = round_.rate_factor(offer, config_.share_power),
                    .plain = payload.plain};
  if (config_.rules.stale != plan::Stale::kCompensate) return gradient;
  const auto worker = workers_.find(offer.worker);
  if (worker != workers_.end() && worker->second.backup.size() == value_bytes_)
    gradient.backup = worker->second.backup;
  return gradient;
}

// conflict=accumulate: applies pushes that commute as one sum, which passes over the values once.
// Returns false, with nothing applied, if that is not possible.
bool TablePart::push_together(const std::deque<KeptMessage>& batch) {
  struct Together {
    const KeptMessage* kept = nullptr;
    policy::Offer offer;
    std::uint64_t staleness = 0;
    double factor = 1;  // of the learning rate
    PartPayload payload;
  };
  if (!config_.gradients_commute || batch.size() < 2 ||
      position_.role != ChainPosition::Role::kPrimary || presence_ != Presence::kPresent)
    return false;
  std::vector<Together> all;
  const std::vector<policy::Worker> members = round_.members();
  std::map<NodeId, std::uint64_t> last;  // sequence of each worker
  for (const KeptMessage& kept : batch) {
    const MessageHeader& header = kept.message.header;
    const auto worker = workers_.find(kept.from);
    const bool is_new = is_gradient(header) && check_push(header) && header.weight > 0 &&
                        header.rate > 0 && worker != workers_.end() &&
                        worker->second.history.state(header.sequence) == PushHistory::State::kNew &&
                        header.sequence > last[kept.from];
    const bool is_member = std::binary_search(members.begin(), members.end(), kept.from);
    if (!is_new || !is_member) return false;
    last[kept.from] = header.sequence;
    Together one{.kept = &kept, .offer = offer_of(kept.from, header), .payload = {}};
    // Each of them is a version of its own, as if they were applied one after the other.
    one.staleness = round_.staleness_of(one.offer) + all.size();
    const bool is_too_old =
        config_.rules.stale == plan::Stale::kDrop && one.staleness > config_.rules.drop_above;
    auto payload = read_push(kept.message, config_, index_);
    if (is_too_old || !payload) return false;
    one.payload = std::move(*payload);
    all.push_back(std::move(one));
  }
  // Nothing above has changed the round. An offer sets the weight of its member; if the storage
  // refuses the sum, handle() offers the same gradients again.
  for (Together& one : all) {
    if (round_.offer(one.offer) != policy::Decision::kApply) return false;
    one.factor = policy::rate_factor(config_.rules, round_.share_of(one.offer), one.staleness,
                                     config_.share_power);
  }
  // The mean of k gradients at k times a rate is their sum.
  const double rate = all.front().kept->message.header.rate;
  std::vector<Gradient> gradients;
  for (const Together& one : all) {
    Gradient& gradient = gradients.emplace_back(gradient_of(one.offer, one.payload));
    gradient.weight = 1;
    gradient.factor =
        one.factor * static_cast<double>(all.size()) * one.kept->message.header.rate / rate;
  }
  if (!storage_->apply(gradients, apply_options(rate))) return false;
  for (const Together& one : all) {
    const MessageHeader& header = one.kept->message.header;
    round_.applied(one.offer, one.staleness);
    workers_.find(one.kept->from)->second.history.apply(header.sequence);
    PendingRequest pending{.worker = one.kept->from,
                           .request = header,
                           .reply = one.kept->message.reply,
                           .mark = touched(one.payload.keys),
                           .staleness = one.staleness};
    pending.wants_values = header.kind != MessageKind::kPush;
    if (pending.wants_values) pending.keys.assign(one.payload.keys.begin(), one.payload.keys.end());
    finish(std::move(pending));
  }
  return true;
}

std::uint64_t TablePart::touched(std::span<const std::uint64_t> keys) {
  values_changed_ = true;
  average_version_ = 0;
  if (replication_.is_waited_for())
    touched_keys_.insert(touched_keys_.end(), keys.begin(), keys.end());
  return replication_.changed();
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
    finished_.reset();
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
  const bool is_gradient = server::is_gradient(header);
  const bool is_add = header.push_kind == static_cast<std::uint8_t>(PushKind::kAdd);
  if (!is_add && !(is_gradient && config_.gradients_commute)) return false;
  if (!check_push(header) || header.weight == 0) return false;
  auto payload = read_push(message, config_, index_);
  if (!payload) return false;

  PendingRequest pending{.worker = from, .request = header, .reply = message.reply};
  std::optional<MessageHeader> answer;
  {
    const SharedLock lock(mutex_);
    if (position_.role != ChainPosition::Role::kPrimary || presence_ != Presence::kPresent)
      return false;
    const policy::Offer offer = offer_of(from, header);
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
      if (is_gradient) factor = -header.rate * round_.rate_factor(offer, config_.share_power);
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
