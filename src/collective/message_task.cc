#include "collective/message_task.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernel/reduce/reduce.h"

namespace tally::collective {

MessageTask::MessageTask(Mailbox& mailbox, Schedule schedule, Options options, Traffic& traffic)
    : mailbox_(mailbox),
      schedule_(std::move(schedule)),
      options_(std::move(options)),
      traffic_(traffic),
      scratch_(schedule_.scratch_bytes()) {}

Rank MessageTask::member(Rank peer) const {
  return options_.group.empty() ? peer : options_.group[static_cast<std::size_t>(peer)];
}

const std::byte* MessageTask::at(const Block& block) const {
  switch (block.buffer) {
    case Buffer::kInput:
      return options_.input + block.offset_bytes;
    case Buffer::kOutput:
      return options_.output + block.offset_bytes;
    case Buffer::kScratch:
      return scratch_.data() + block.offset_bytes;
  }
  return nullptr;
}

// Nothing writes to the input: it is only sent and copied from.
std::byte* MessageTask::at(const Block& block) {
  return const_cast<std::byte*>(std::as_const(*this).at(block));
}

void MessageTask::open_steps() {
  const std::size_t first = pending_.empty() ? next_step_ : pending_.front().step;
  while (next_step_ < schedule_.step_count() && next_step_ < first + schedule_.steps_at_once()) {
    const std::span<const Action> actions = schedule_.step(next_step_);
    bool exchanges = false;
    for (const Action& action : actions) {
      Pending& pending = pending_.emplace_back();
      pending.action = &action;
      pending.step = next_step_;
      exchanges |= action.peer != kNoRank;
    }
    if (exchanges) ++traffic_.steps;
    ++next_step_;
  }
}

// Whether an earlier action of the steps under way must be done first.
bool MessageTask::must_wait(const Pending& pending) const {
  if (schedule_.steps_at_once() == 1) return false;
  const auto overlap = [this](const Block& a, const Block& b) {
    return at(a) < at(b) + b.bytes && at(b) < at(a) + a.bytes;
  };
  const auto writes = [](const Action& action) { return action.kind != ActionKind::kSend; };
  const auto copies = [](const Action& action) { return action.kind == ActionKind::kCopy; };
  const Action& later = *pending.action;
  for (const Pending& earlier_pending : pending_) {
    if (&earlier_pending == &pending) return false;
    if (earlier_pending.state == Pending::State::kDone) continue;
    const Action& earlier = *earlier_pending.action;
    if ((writes(earlier) || writes(later)) && overlap(earlier.block, later.block)) return true;
    if (copies(later) && writes(earlier) && overlap(earlier.block, later.source)) return true;
    if (copies(earlier) && writes(later) && overlap(earlier.source, later.block)) return true;
  }
  return false;
}

// Sends come last: the peer may answer at once, and the answer should find its place.
void MessageTask::start_actions() {
  for (const bool sends : {false, true}) {
    for (Pending& pending : pending_) {
      if (pending.state != Pending::State::kWaiting ||
          (pending.action->kind == ActionKind::kSend) != sends || must_wait(pending)) {
        continue;
      }
      start(pending);
    }
  }
}

void MessageTask::start(Pending& pending) {
  const Action& action = *pending.action;
  std::byte* const block = at(action.block);
  pending.state = Pending::State::kStarted;
  switch (action.kind) {
    case ActionKind::kCopy:
      if (block != at(action.source)) std::memcpy(block, at(action.source), action.block.bytes);
      pending.state = Pending::State::kDone;
      break;
    case ActionKind::kDivide:
      if (options_.divisor != 1) {
        kernel::kernels().divide(options_.type, block, action.block.bytes / size_of(options_.type),
                                 options_.divisor);
      }
      pending.state = Pending::State::kDone;
      break;
    case ActionKind::kSend:
      pending.outgoing.header = {.sequence = options_.sequence,
                                 .step = options_.first_message + action.message,
                                 .signature = options_.signature};
      pending.outgoing.payload = {block, action.block.bytes};
      mailbox_.send(member(action.peer), pending.outgoing);
      ++traffic_.messages_sent;
      traffic_.bytes_sent += action.block.bytes;
      break;
    case ActionKind::kReceive:
    case ActionKind::kCombine:
      pending.incoming = {.from = member(action.peer),
                          .sequence = options_.sequence,
                          .message = options_.first_message + action.message,
                          .signature = options_.signature,
                          .into = block,
                          .bytes = action.block.bytes,
                          .combine = action.kind == ActionKind::kCombine,
                          .type = options_.type,
                          .op = options_.op};
      mailbox_.expect(pending.incoming);
      break;
  }
}

bool MessageTask::finished(const Pending& pending) {
  return pending.action->kind == ActionKind::kSend ? pending.outgoing.sent()
                                                   : pending.incoming.done;
}

// Notes which actions are done, and closes the steps that are.
bool MessageTask::finish_actions() {
  bool any = false;
  for (Pending& pending : pending_) {
    if (pending.state != Pending::State::kStarted || !finished(pending)) continue;
    pending.state = Pending::State::kDone;
    any = true;
  }
  while (!pending_.empty() && pending_.front().state == Pending::State::kDone) {
    pending_.pop_front();
    any = true;
  }
  return any;
}

Result<Progress> MessageTask::advance() {
  MutexLock lock(mailbox_.router().mutex);
  Progress progress = mailbox_.router().progress() ? Progress::kMoved : Progress::kBlocked;
  for (;;) {
    if (mailbox_.failed()) return mailbox_.failure();
    const bool finished = finish_actions();
    if (pending_.empty() && next_step_ == schedule_.step_count()) return Progress::kComplete;
    if (!finished && !pending_.empty()) return progress;
    open_steps();
    start_actions();
    progress = Progress::kMoved;
  }
}

bool MessageTask::ready() const {
  return mailbox_.failed() || pending_.empty() ||
         std::any_of(pending_.begin(), pending_.end(), [](const Pending& pending) {
           return pending.state == Pending::State::kStarted && finished(pending);
         });
}

std::vector<Rank> MessageTask::awaited() const {
  std::vector<Rank> ranks;
  for (const bool sends : {false, true}) {
    for (const Pending& pending : pending_) {
      if (pending.state != Pending::State::kStarted || finished(pending) ||
          (pending.action->kind == ActionKind::kSend) != sends) {
        continue;
      }
      const Rank rank = member(pending.action->peer);
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
    }
  }
  return ranks;
}

void MessageTask::cancel() {
  MutexLock lock(mailbox_.router().mutex);
  for (Pending& pending : pending_) {
    if (pending.state != Pending::State::kStarted || finished(pending)) continue;
    if (pending.action->kind == ActionKind::kSend) {
      mailbox_.withdraw(member(pending.action->peer), pending.outgoing);
    } else {
      mailbox_.withdraw(pending.incoming);
    }
  }
  pending_.clear();
}

}  // namespace tally::collective
