#include "collective/message_task.h"

#include <algorithm>
#include <cstring>

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

std::byte* MessageTask::at(const Block& block) {
  switch (block.buffer) {
    case Buffer::kInput:
      // Inputs are only sent and copied from.
      return const_cast<std::byte*>(options_.input) + block.offset_bytes;
    case Buffer::kOutput:
      return options_.output + block.offset_bytes;
    case Buffer::kScratch:
      return scratch_.data() + block.offset_bytes;
  }
  return nullptr;
}

void MessageTask::copy(const Action& action) {
  std::byte* into = at(action.block);
  const std::byte* from = at(action.source);
  if (into != from && action.block.bytes > 0) std::memcpy(into, from, action.block.bytes);
}

void MessageTask::start_step() {
  const std::span<const Action> actions = schedule_.step(next_step_++);
  // Room first: the mailbox and the transport hold pointers to the elements.
  sends_.clear();
  receives_.clear();
  sends_.reserve(actions.size());
  receives_.reserve(actions.size());
  for (const Action& action : actions) {
    const std::size_t count = action.block.bytes / size_of(options_.type);
    switch (action.kind) {
      case ActionKind::kCopy:
        copy(action);
        break;
      case ActionKind::kDivide:
        if (options_.divisor != 1)
          kernel::kernels().divide(options_.type, at(action.block), count, options_.divisor);
        break;
      case ActionKind::kSend: {
        Sending& sending = sends_.emplace_back();
        sending.to = member(action.peer);
        sending.outgoing.header = {.sequence = options_.sequence,
                                   .step = options_.first_message + action.message,
                                   .signature = options_.signature};
        sending.outgoing.payload = {at(action.block), action.block.bytes};
        break;
      }
      case ActionKind::kReceive:
      case ActionKind::kCombine:
        receives_.push_back({.from = member(action.peer),
                             .sequence = options_.sequence,
                             .message = options_.first_message + action.message,
                             .signature = options_.signature,
                             .into = at(action.block),
                             .bytes = action.block.bytes,
                             .combine = action.kind == ActionKind::kCombine,
                             .type = options_.type,
                             .op = options_.op});
        break;
    }
  }
  for (Incoming& incoming : receives_) mailbox_.expect(incoming);
  for (Sending& sending : sends_) {
    mailbox_.send(sending.to, sending.outgoing);
    ++traffic_.messages_sent;
    traffic_.bytes_sent += sending.outgoing.payload.size();
  }
  if (!sends_.empty() || !receives_.empty()) ++traffic_.steps;
}

bool MessageTask::step_complete() const {
  return std::all_of(receives_.begin(), receives_.end(),
                     [](const Incoming& i) { return i.done; }) &&
         std::all_of(sends_.begin(), sends_.end(),
                     [](const Sending& s) { return s.outgoing.sent(); });
}

Result<Progress> MessageTask::advance() {
  MutexLock lock(mailbox_.room().mutex);
  Progress progress = mailbox_.room().progress() ? Progress::kMoved : Progress::kBlocked;
  for (;;) {
    if (mailbox_.failed()) return mailbox_.failure();
    if (!step_complete()) return progress;
    if (next_step_ == schedule_.step_count()) return Progress::kComplete;
    start_step();
    progress = Progress::kMoved;
  }
}

bool MessageTask::ready() const { return step_complete() || mailbox_.failed(); }

std::vector<Rank> MessageTask::awaited() const {
  std::vector<Rank> ranks;
  for (const Incoming& incoming : receives_)
    if (!incoming.done) ranks.push_back(incoming.from);
  for (const Sending& sending : sends_)
    if (!sending.outgoing.sent()) ranks.push_back(sending.to);
  return ranks;
}

void MessageTask::cancel() {
  MutexLock lock(mailbox_.room().mutex);
  for (Incoming& incoming : receives_)
    if (!incoming.done) mailbox_.withdraw(incoming);
  for (Sending& sending : sends_)
    if (!sending.outgoing.sent()) mailbox_.withdraw(sending.to, sending.outgoing);
  receives_.clear();
  sends_.clear();
}

}  // namespace tally::collective
