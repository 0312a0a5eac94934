// Rounds of a part: gradients that are held until policy::Round has enough of them.
//
//   hold()        keeps a gradient until its round is complete
//   run_due()     applies complete rounds, and drops late gradients
//
// A measured table applies a round in two halves: gather_round() makes the mean gradient, kMeasure
// answers its sums of squares, and finish_round() applies it with the norms of the first kFinish.
// The part does not change in between, so a new primary simply gathers the round again.
#include <algorithm>
#include <utility>

#include "server/part/table_part.h"
#include "server/protocol/message.h"
#include "server/protocol/payloads.h"

namespace tally::server {

void TablePart::hold(const policy::Offer& offer, const Message& message, PartPayload payload) {
  // Of two gradients of one version the later one counts; where a worker may have several in a
  // round, of two with one clock.
  const policy::Rules& rules = config_.rules;
  const auto replaced = std::find_if(held_.begin(), held_.end(), [&](const Contribution& held) {
    return held.offer.worker == offer.worker &&
           (rules.any_version || held.offer.version == offer.version) &&
           (!rules.counts_gradients() || held.offer.clock == offer.clock);
  });
  if (replaced != held_.end()) settle_held(replaced->offer, Outcome::kDropped);

  Contribution held{.offer = offer,
                    .sequence = message.header.sequence,
                    .rate = message.header.rate,
                    .payload = std::move(payload),
                    .bytes = message.payload};
  if (config_.rules.stale == plan::Stale::kCompensate)
    if (const auto worker = workers_.find(offer.worker); worker != workers_.end())
      held.backup = worker->second.backup;
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
    if (gathered_) {
      if (!finish_ || finish_->version != round_.version()) return;
      finish_round();
    }
    const policy::Round::Due due = round_.due();
    if (due.nothing()) return;
    if (!due.counted.empty()) {
      if (config_.spec.measured) {
        gather_round(due.counted);
      } else {
        apply_round(due.counted);
      }
    }
    for (const policy::Offer& offer : due.dropped) settle_held(offer, Outcome::kDropped);
    if (due.passed_over > 0) replication_.changed();
  }
}

std::vector<Gradient> TablePart::gradients_of(const std::vector<policy::Offer>& counted) {
  std::vector<Gradient> gradients;
  for (const policy::Offer& offer : counted) {
    const auto held = find_held(offer);
    if (held == held_.end()) continue;
    gradients.push_back(gradient_of(offer, held->payload));
    gradients.back().backup = held->backup;
  }
  return gradients;
}

// The learning rate of a round is that of the lowest rank.
double TablePart::rate_of(const std::vector<policy::Offer>& counted) {
  for (const policy::Offer& offer : counted)
    if (const auto held = find_held(offer); held != held_.end()) return held->rate;
  return 0;
}

TablePart::CompleteRound TablePart::with_keys(const std::vector<policy::Offer>& counted) {
  CompleteRound round{.counted = counted, .keys = {}};
  for (const policy::Offer& offer : counted)
    if (const auto held = find_held(offer); held != held_.end())
      round.keys.insert(round.keys.end(), held->payload.keys.begin(), held->payload.keys.end());
  return round;
}

void TablePart::apply_round(const std::vector<policy::Offer>& counted) {
  const CompleteRound round = with_keys(counted);
  end_round(round, storage_->apply(gradients_of(counted), apply_options(rate_of(counted))));
}

// Measured tables: the round waits for finish().
void TablePart::gather_round(const std::vector<policy::Offer>& counted) {
  const auto gathered = storage_->gather(gradients_of(counted), apply_options(rate_of(counted)));
  if (!gathered) return refuse_round(counted, gathered.error());
  gathered_ = with_keys(counted);
  if (!std::exchange(failure_, std::nullopt)) return;
  replication_.changed();  // a successor must not refuse the requests of the round that fits
}

void TablePart::finish_round() {
  const CompleteRound round = *std::exchange(gathered_, std::nullopt);
  const Finish finish = *std::exchange(finish_, std::nullopt);
  Result<void> applied;
  if (finish.discards) {
    storage_->forget_gathered();
  } else {
    applied = storage_->apply_gathered(
        {.factor = finish.factor,
         .norms = {.parameters = finish.value_norm, .gradient = finish.gradient_norm}});
  }
  if (applied) finished_ = finish;
  end_round(round, applied);
}

// Gives up the gathered mean of a round that will never be finished.
void TablePart::forget_round() {
  if (std::exchange(gathered_, std::nullopt)) storage_->forget_gathered();
  finish_.reset();
  failure_.reset();
}

// Ends a round that was applied, or refuses it.
void TablePart::end_round(const CompleteRound& round, const Result<void>& applied) {
  if (!applied) return refuse_round(round.counted, applied.error());
  for (const policy::Offer& offer : round.counted)
    if (const auto held = find_held(offer); held != held_.end())
      held->staleness = round_.staleness_of(offer);
  round_.applied(round.counted);
  touched(round.keys);
  if (!storage_->average().empty()) average_version_ = round_.version();
  for (const policy::Offer& offer : round.counted) settle_held(offer, Outcome::kDone);
  tell_late(round.counted);
}

// Refuses the gradients of a round that cannot be applied, and the measurements and finishes of its
// version: the round would never be complete for them.
void TablePart::refuse_round(const std::vector<policy::Offer>& counted, const Error& why) {
  for (const policy::Offer& offer : counted) refuse_held(offer, why);
  if (!config_.spec.measured) return;
  finish_.reset();
  failure_ = RoundFailure{.version = round_.version(), .why = why};
  const std::uint64_t mark = replication_.changed();
  for (PendingRequest& pending : pending_) {
    const MessageHeader& request = pending.request;
    const bool waits =
        request.kind == MessageKind::kMeasure || request.kind == MessageKind::kFinish;
    if (!waits || request.version != failure_->version) continue;
    pending.refusal = why;
    pending.mark = mark;
  }
}

// Refuses a request of a round that has failed. Like every outcome, the refusal waits until all
// copies know of it: a successor that does not know of the failure would wait for gradients that no
// worker sends again.
void TablePart::refuse_when_safe(PendingRequest pending) {
  pending.refusal = failure_->why;
  pending.mark = replication_.marks();
  finish(std::move(pending));
}

// Whether the current round has this version and could not be applied, as far as this worker is
// concerned. A worker whose gradient of this version is held here has pushed again since then. A
// worker that is not drawn pushes nothing, and follows any other worker that has pushed again.
bool TablePart::has_failed(NodeId worker, std::uint64_t version) const {
  if (!failure_ || failure_->version != version || round_.version() != version) return false;
  const bool pushes = round_.is_drawn(worker);
  return std::none_of(held_.begin(), held_.end(), [&](const Contribution& held) {
    return held.offer.version == version && (!pushes || held.offer.worker == worker);
  });
}

// A worker that asks for a round offers nothing for older versions, as in pull().
void TablePart::measure(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  const auto factor = decode_values(message.payload);
  if (!config_.spec.measured || !factor || factor->size() != 1)
    return refuse(from, header, corrupt("invalid measure request for this table"));
  round_.pass(from, header.version + 1);
  run_due();
  PendingRequest pending{.worker = from, .request = header, .factor = factor->front()};
  if (has_failed(from, header.version)) return refuse_when_safe(std::move(pending));
  finish(std::move(pending));
}

bool TablePart::is_measurable(const PendingRequest& pending) const {
  const std::uint64_t version = pending.request.version;
  return round_.version() > version || (gathered_ && round_.version() == version);
}

std::vector<double> TablePart::measured(const PendingRequest& pending) const {
  const std::uint64_t version = pending.request.version;
  if (gathered_ && round_.version() == version) {
    const Squares squares =
        storage_->measure(pending.factor, pending.request.push_kind == kDirection);
    return {kComplete, squares.values, squares.gradient, 0};
  }
  // A round without gradients has no call that finished it, and only the last call is known.
  if (!finished_ || finished_->version != version) return {kSkipped, 0, 0, 0};
  return {finished_->discards ? kDiscarded : kFinished, finished_->factor, finished_->value_norm,
          finished_->gradient_norm};
}

void TablePart::take_finish(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  const auto values = decode_values(message.payload);
  if (!config_.spec.measured || !values || values->size() != 3 ||
      header.least_version != header.version + 1)
    return refuse(from, header, corrupt("invalid finish request for this table"));
  round_.pass(from, header.least_version);
  const bool is_first = !finish_ || finish_->version != round_.version();
  if (header.version == round_.version() && is_first && !has_failed(from, header.version))
    finish_ = Finish{.version = header.version,
                     .factor = (*values)[0],
                     .value_norm = (*values)[1],
                     .gradient_norm = (*values)[2],
                     .discards = header.push_kind == kDiscard};
  run_due();
  PendingRequest pending{.worker = from, .request = header, .mark = replication_.marks()};
  if (has_failed(from, header.version)) return refuse_when_safe(std::move(pending));
  finish(std::move(pending));
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
    pending.staleness = held->staleness;
    pending.mark = replication_.marks();
  }
  held_.erase(held);
}

// Drops gradients that wait for a later version: after a restore their workers would count as
// ahead of it.
void TablePart::drop_held() {
  forget_round();
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
  settle_held(offer, Outcome::kDropped);
  for (PendingRequest& pending : pending_)
    if (pending.worker == offer.worker && pending.request.sequence == sequence)
      pending.refusal = why;
}

// Rounds that do not wait for all workers: tells the late ones that their gradients of this round
// come too late.
void TablePart::tell_late(const std::vector<policy::Offer>& counted) {
  const policy::Rules& rules = config_.rules;
  const bool may_be_late = rules.update == plan::Update::kBackup ||
                           (rules.update == plan::Update::kKbatch && !rules.any_version);
  if (!may_be_late) return;
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

}  // namespace tally::server
