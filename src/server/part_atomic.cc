#include <utility>

#include "server/part.h"

namespace tally::server {

// Many hands at once: everybody holds the gate together, keeps books one at a time, and adds to the
// numbers element by element. A record needs the gate for itself, so that books and numbers of a
// record are of the same pushes.
bool Part::push_atomically(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  const bool is_gradient = header.push_kind == static_cast<std::uint8_t>(PushKind::kGradient);
  const bool is_add = header.push_kind == static_cast<std::uint8_t>(PushKind::kAdd);
  if (!is_add && !(is_gradient && facts_.gradients_commute)) return false;
  if (header.sequence == 0 || !(header.weight > 0)) return false;
  auto payload = pushed_by(message);
  if (!payload) return false;

  Waiting waiting{.worker = from, .request = header, .reply = message.reply};
  std::optional<MessageHeader> answer;
  {
    const std::shared_lock gate(gate_);
    if (position_.role != Position::Role::kPrimary || presence_ != Presence::kPresent) return false;
    const policy::Offer offer{.worker = from, .clock = header.clock, .version = header.version};
    double factor = 1;
    {
      const std::lock_guard books(mutex_);
      const auto worker = workers_.find(from);
      if (worker == workers_.end() ||
          worker->second.receipts.standing(header.sequence) != Receipts::Standing::kNew)
        return false;
      // Too late for drop:T: written down by whoever has the gate for himself. What is said here
      // stays so, whatever others add meanwhile.
      if (is_gradient && round_.offer(offer) != policy::Decision::kApply) return false;
      if (is_gradient) waiting.staleness = round_.staleness_of(offer);
      if (is_gradient) factor = -header.rate * round_.rate_factor(waiting.staleness);
    }
    // Rows that are not there are made by whoever has the gate for himself; nothing is added then.
    if (!storage_->add_atomically({.keys = payload->keys, .values = payload->values}, factor))
      return false;
    const std::lock_guard books(mutex_);
    if (is_gradient) {
      round_.applied(offer, waiting.staleness);
    } else {
      round_.advance(from, header.clock);
    }
    workers_.find(from)->second.receipts.apply(header.sequence);
    waiting.mark = touched(payload->keys);
    waiting.wants_values = header.kind != MessageKind::kPush;
    if (waiting.wants_values) waiting.keys.assign(payload->keys.begin(), payload->keys.end());
    if (!waiting.wants_values && replication_.is_safe(waiting.mark) && waiting_.empty()) {
      answer = answer_header(header, Outcome::kDone);
      answer->least_clock = waiting.staleness;
    } else {
      waiting_.push_back(std::move(waiting));
    }
  }
  if (answer) {
    around_.postman.send(from, *answer, {});
  } else {
    exclusively([] {});
  }
  return true;
}

}  // namespace tally::server
