#include "collective/point_task.h"

namespace tally::collective {

PointTask::PointTask(Mailbox& mailbox, const Request& request, const wire::Signature& signature,
                     Traffic& traffic)
    : mailbox_(mailbox), sending_(request.operation == Operation::kSend), peer_(request.root) {
  const std::size_t bytes = request.count * size_of(request.type);
  MutexLock lock(mailbox_.router().mutex);
  if (sending_) {
    outgoing_.header = {.kind = wire::FrameKind::kPoint,
                        .sequence = request.tag,
                        .step = mailbox_.next_point_number(peer_),
                        .signature = signature};
    outgoing_.payload = {static_cast<const std::byte*>(request.input), bytes};
    mailbox_.send(peer_, outgoing_);
    ++traffic.messages_sent;
    traffic.bytes_sent += bytes;
  } else {
    incoming_ = {.from = peer_,
                 .point = true,
                 .sequence = request.tag,
                 .signature = signature,
                 .into = static_cast<std::byte*>(request.output),
                 .bytes = bytes};
    mailbox_.expect(incoming_);
  }
  posted_ = true;
}

Result<Progress> PointTask::advance() {
  MutexLock lock(mailbox_.router().mutex);
  const bool moved = mailbox_.router().progress();
  if (done()) return Progress::kComplete;
  if (mailbox_.failed()) return mailbox_.failure();
  return moved ? Progress::kMoved : Progress::kBlocked;
}

std::vector<Rank> PointTask::awaited() const {
  return done() ? std::vector<Rank>() : std::vector<Rank>{peer_};
}

void PointTask::cancel() {
  MutexLock lock(mailbox_.router().mutex);
  if (!posted_ || done()) return;
  posted_ = false;
  if (sending_) {
    mailbox_.withdraw(peer_, outgoing_);
  } else {
    mailbox_.withdraw(incoming_);
  }
}

}  // namespace tally::collective
