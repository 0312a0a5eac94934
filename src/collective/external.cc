#include "collective/external.h"

#include "base/errors.h"
#include "collective/communicator.h"

namespace tally::collective {
namespace {

// The engine tells nobody when it is done: a rank that sleeps looks again after this time.
constexpr Duration kPollPeriod = std::chrono::microseconds(50);

}  // namespace

Error with_own_rank(Error error, Rank self) {
  const bool is_own = error.code == ErrorCode::kSystem || error.code == ErrorCode::kExhausted;
  if (is_own && error.peer == kNoRank) error.peer = self;
  return error;
}

Result<Progress> ExternalTask::advance() {
  Progress progress = Progress::kBlocked;
  if (!entered_) {
    TALLY_TRY(progress, entry_->advance());
    if (progress == Progress::kComplete) {
      entered_ = true;
      progress = Progress::kMoved;
    }
  } else {
    MutexLock lock(mailbox_.router().mutex);
    if (mailbox_.router().progress()) progress = Progress::kMoved;
    if (mailbox_.failed()) return mailbox_.failure();
  }
  if (!complete_) {
    const Result<bool> complete = operation_->advance(entered_);
    if (!complete.has_value()) return with_own_rank(complete.error(), mailbox_.self());
    complete_ = *complete;
  }
  return complete_ && entered_ ? Progress::kComplete : progress;
}

void ExternalTask::cancel() {
  entry_->cancel();
  operation_->cancel();
}

Duration ExternalTask::poll_period() const { return kPollPeriod; }

Result<std::unique_ptr<Communicator>> carried_out_by(MakeExternal make, Communicator& control,
                                                     Deadline by) {
  TALLY_TRY(auto made, control.split(0, control.rank(), by));
  auto* const group = dynamic_cast<GroupCommunicator*>(made.get());
  if (group == nullptr)
    return invalid("an engine beside Tally's own needs Tally's transports: use engine=tally");
  group->carry_out(std::move(make));
  return made;
}

}  // namespace tally::collective
