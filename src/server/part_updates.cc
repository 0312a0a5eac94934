#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "server/part.h"

namespace tally::server {
namespace {

Error corrupt(std::string message) {
  return Error{.code = ErrorCode::kCorrupt, .message = std::move(message)};
}

Result<void> check_push(const MessageHeader& header) {
  if (header.sequence == 0) return corrupt("a push without a number");
  if (header.push_kind > static_cast<std::uint8_t>(PushKind::kAssign))
    return corrupt(fmt::format("a push of unknown kind {}", header.push_kind));
  if (!(header.weight >= 0)) return corrupt(fmt::format("a push of weight {}", header.weight));
  return {};
}

}  // namespace

void Part::push(NodeId from, const Message& message, Worker& worker) {
  const MessageHeader& header = message.header;
  if (auto fine = check_push(header); !fine) return refuse(from, header, fine.error());
  auto payload = pushed_by(message);
  if (!payload) return refuse(from, header, payload.error());
  Waiting waiting{.worker = from, .request = header, .reply = message.reply};
  waiting.wants_values = header.kind != MessageKind::kPush;
  if (waiting.wants_values) waiting.keys.assign(payload->keys.begin(), payload->keys.end());

  switch (worker.receipts.standing(header.sequence)) {
    case Receipts::Standing::kApplied:
      waiting.mark = replication_.marks();
      return finish(std::move(waiting));
    case Receipts::Standing::kDropped:
      waiting.mark = replication_.marks();
      waiting.outcome = Outcome::kDropped;
      return finish(std::move(waiting));
    case Receipts::Standing::kHeld:
      // Held here, or on the server that was primary before: then it is as new.
      waiting.is_held = std::any_of(held_.begin(), held_.end(), [&](const Contribution& held) {
        return held.offer.worker == from && held.sequence == header.sequence;
      });
      if (waiting.is_held) return finish(std::move(waiting));
      break;
    case Receipts::Standing::kNew:
      break;
  }
  if (auto done = apply_new(from, message, std::move(*payload), worker, waiting); !done) {
    // Later ones may be applied: if this one is sent again it must not be taken for one of them.
    worker.receipts.drop(header.sequence);
    replication_.changed();
    return refuse(from, header, done.error());
  }
  finish(std::move(waiting));
  run_due();
}

Result<void> Part::apply_new(NodeId from, const Message& message, PartPayload payload,
                             Worker& worker, Waiting& waiting) {
  const MessageHeader& header = message.header;
  const auto kind = static_cast<PushKind>(header.push_kind);
  if (kind == PushKind::kGradient) return offer(from, message, std::move(payload), worker, waiting);
  const Gradient values{.keys = payload.keys, .values = payload.values, .weight = header.weight};
  TALLY_TRY(kind == PushKind::kAdd ? storage_->add(values) : storage_->assign(values));
  round_.advance(from, header.clock);
  worker.receipts.apply(header.sequence);
  waiting.mark = touched(payload.keys);
  return {};
}

Result<void> Part::offer(NodeId from, const Message& message, PartPayload payload, Worker& worker,
                         Waiting& waiting) {
  const MessageHeader& header = message.header;
  if (!make_room(from, header.sequence, worker))
    return Error{.code = ErrorCode::kExhausted,
                 .message = fmt::format("{} gradients of this worker wait for their round",
                                        worker.receipts.held().size())};
  const policy::Offer offer{.worker = from, .clock = header.clock, .version = header.version};
  switch (round_.offer(offer)) {
    case policy::Decision::kDrop:
      worker.receipts.drop(header.sequence);
      ++dropped_;
      waiting.outcome = Outcome::kDropped;
      waiting.mark = replication_.changed();
      return {};
    case policy::Decision::kHold:
      hold(offer, message, std::move(payload));
      worker.receipts.hold(header.sequence);
      waiting.is_held = true;
      return {};
    case policy::Decision::kApply:
      break;
  }
  waiting.staleness = round_.staleness_of(offer);
  const Gradient gradient{.keys = payload.keys, .values = payload.values, .weight = header.weight};
  TALLY_TRY(storage_->apply(std::span(&gradient, 1),
                            apply_facts(header.rate, waiting.staleness, &worker)));
  round_.applied(offer, waiting.staleness);
  worker.receipts.apply(header.sequence);
  waiting.mark = touched(payload.keys);
  return {};
}

// Whether one more push of the worker may be held. What was held where the part was before is sent
// again first, and has its place; what has not come again when a new one comes was given up.
bool Part::make_room(NodeId from, std::uint64_t sequence, Worker& worker) const {
  Receipts& receipts = worker.receipts;
  if (receipts.standing(sequence) == Receipts::Standing::kHeld) return true;
  if (receipts.held().size() < Receipts::kMaxHeld) return true;
  std::set<std::uint64_t> here;
  for (const Contribution& held : held_)
    if (held.offer.worker == from) here.insert(held.sequence);
  const std::vector<std::uint64_t> known(receipts.held().begin(), receipts.held().end());
  for (const std::uint64_t held : known)
    if (!here.contains(held)) receipts.drop(held);
  return receipts.held().size() < Receipts::kMaxHeld;
}

ApplyFacts Part::apply_facts(double rate, std::uint64_t staleness, const Worker* worker) const {
  ApplyFacts facts{.rate = rate * round_.rate_factor(staleness), .version = round_.version()};
  // Without a backup the gradient is as if computed at the values that are here.
  if (facts_.rules.stale != plan::Stale::kCompensate || worker == nullptr ||
      worker->backup.size() != value_bytes_)
    return facts;
  facts.compensation = facts_.rules.compensation;
  facts.adaptive = facts_.rules.adaptive;
  facts.backup = worker->backup;
  return facts;
}

std::uint64_t Part::touched(std::span<const std::uint64_t> keys) {
  values_changed_ = true;
  average_version_ = 0;
  if (replication_.is_waited_for())
    touched_keys_.insert(touched_keys_.end(), keys.begin(), keys.end());
  return replication_.changed();
}

void Part::hold(const policy::Offer& offer, const Message& message, PartPayload payload) {
  // The same version offered twice: the later one counts.
  const bool by_clock = facts_.rules.update == plan::Update::kKbatch;
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
  if (facts_.codec != nullptr) {
    held.bytes = {};
  } else if (!message.stays) {
    held.owned.assign(message.payload.begin(), message.payload.end());
    held.bytes = held.owned;
    auto copied = payload_of(held.owned, true, false);
    if (copied) held.payload = std::move(*copied);
  }
  held_.push_back(std::move(held));
}

void Part::run_due() {
  if (position_.role != Position::Role::kPrimary || presence_ != Presence::kPresent) return;
  for (;;) {
    const policy::Round::Due due = round_.due();
    if (due.nothing()) return;
    if (!due.counted.empty()) apply_round(due.counted);
    for (const policy::Offer& offer : due.dropped) settle_held(offer, Outcome::kDropped);
    if (due.passed_over > 0) replication_.changed();
  }
}

void Part::apply_round(const std::vector<policy::Offer>& counted) {
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
  const auto applied = storage_->apply(gradients, apply_facts(rate, 0, nullptr));
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

std::vector<Part::Contribution>::iterator Part::find_held(const policy::Offer& offer) {
  return std::find_if(held_.begin(), held_.end(), [&](const Contribution& held) {
    return held.offer.worker == offer.worker && held.offer.clock == offer.clock &&
           held.offer.version == offer.version;
  });
}

// The contribution is over: its push is answered when the copies know.
void Part::settle_held(const policy::Offer& offer, Outcome outcome) {
  const auto held = find_held(offer);
  if (held == held_.end()) return;
  if (const auto worker = workers_.find(offer.worker); worker != workers_.end()) {
    if (outcome == Outcome::kDone) {
      worker->second.receipts.apply(held->sequence);
    } else {
      worker->second.receipts.drop(held->sequence);
    }
  }
  if (outcome == Outcome::kDropped) {
    ++dropped_;
    replication_.changed();
  }
  for (Waiting& waiting : waiting_) {
    if (waiting.worker != offer.worker || waiting.request.sequence != held->sequence) continue;
    waiting.is_held = false;
    waiting.outcome = outcome;
    waiting.mark = replication_.marks();
  }
  held_.erase(held);
}

// The part goes on somewhere else: gradients that wait were computed on the way that is given up.
// Whoever they are of would be taken to be further than it is.
void Part::drop_held() {
  std::vector<policy::Offer> offers;
  for (const Contribution& held : held_) offers.push_back(held.offer);
  for (const policy::Offer& offer : offers) {
    round_.withdraw(offer);
    settle_held(offer, Outcome::kDropped);
  }
}

void Part::refuse_held(const policy::Offer& offer, const Error& why) {
  const auto held = find_held(offer);
  if (held == held_.end()) return;
  const std::uint64_t sequence = held->sequence;
  for (const Waiting& waiting : waiting_)
    if (waiting.worker == offer.worker && waiting.request.sequence == sequence)
      refuse(waiting.worker, waiting.request, why);
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    return waiting.worker == offer.worker && waiting.request.sequence == sequence;
  });
  settle_held(offer, Outcome::kDropped);
}

// With rounds that do not wait for everybody: those who are late need not send what they are
// working on.
void Part::tell_late(const std::vector<policy::Offer>& counted) {
  if (facts_.rules.update != plan::Update::kBackup && facts_.rules.update != plan::Update::kKbatch)
    return;
  const MessageHeader closed{.kind = MessageKind::kClosed,
                             .table = facts_.id,
                             .part = index_,
                             .view = position_.view,
                             .version = round_.version()};
  for (const auto& [id, worker] : workers_) {
    const bool was_in_time =
        std::any_of(counted.begin(), counted.end(),
                    [&, worker_id = id](const auto& offer) { return offer.worker == worker_id; });
    if (!was_in_time) around_.postman.send(id, closed, {});
  }
}

void Part::write(NodeId from, const Message& message, Worker& worker) {
  const MessageHeader& header = message.header;
  const bool is_version = header.kind == MessageKind::kSetVersion;
  // What is refused here is refused again, however often and late it is sent.
  if (!is_version &&
      (facts_.spec.kind != TableKind::kDense || message.payload.size() != value_bytes_))
    return refuse(from, header,
                  corrupt(fmt::format("{} bytes of state for part {}, which has {}",
                                      message.payload.size(), index_, value_bytes_)));
  Waiting waiting{.worker = from, .request = header, .mark = replication_.marks()};
  const Receipts::Standing standing = worker.receipts.standing(header.sequence);
  if (standing == Receipts::Standing::kDropped)
    return refuse(from, header, corrupt("state that was refused before"));
  if (standing != Receipts::Standing::kNew) return finish(std::move(waiting));
  if (is_version) {
    drop_held();
    round_.set_version(header.version);
    storage_->set_steps(header.version);
  } else if (auto done = storage_->write_state(header.push_kind, message.payload); !done) {
    worker.receipts.drop(header.sequence);
    replication_.changed();
    return refuse(from, header, done.error());
  }
  waiting.mark = touched({});
  worker.receipts.apply(header.sequence);
  finish(std::move(waiting));
  run_due();
}

}  // namespace tally::server
