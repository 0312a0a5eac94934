#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "collective/mailbox.h"
#include "collective/task.h"
#include "tally/communicator.h"

namespace tally::collective {

// A collective whose data another engine moves, such as NCCL between GPUs. Its methods are called
// by one thread at a time.
class ExternalOperation {
 public:
  virtual ~ExternalOperation() = default;

  // Does all that can be done without waiting; true when this rank's part is complete.
  // `all_entered`: all ranks have issued the same operation. An engine that cannot take operations
  // back waits for it before it moves data. An error ends the operation on all ranks. kSystem and
  // kExhausted without a rank are failures of this rank, and to the others its loss.
  virtual Result<bool> advance(bool all_entered) = 0;

  // The operation has failed, on this rank or another one: gives it up, so that the engine uses no
  // memory of the request any more. The other ranks have been told. An operation that fails before
  // `make` is not cancelled: after a failure of the communicator every later operation does.
  virtual void cancel() = 0;
};

// Begins an operation on this rank; called when the operations before it have ended. The request
// has valid arguments and stays in place. kInvalid if the engine cannot carry it out; the
// communicator then stays usable.
using MakeExternal =
    std::function<Result<std::unique_ptr<ExternalOperation>>(const Request& request)>;

// A new communicator of the ranks of `control`, which all of them call. `make` begins its
// collectives, except for barriers. Order, deadlines, started operations, records, and the
// detection of mismatches and lost ranks are those of Tally's own communicators: each operation
// begins with a barrier, through `control`'s transport, which compares what the ranks call. A rank
// that has done its part and leaves its job is lost to a rank that still waits half a second later.
// `make` outlives the result. kInvalid if `control` belongs to another engine, such as MPI.
Result<std::unique_ptr<Communicator>> carried_out_by(MakeExternal make, Communicator& control,
                                                     Deadline by);

// The error of an engine on rank `self`, with this rank if it is its own failure.
Error with_own_rank(Error error, Rank self);

// The task of an ExternalOperation: `entry` is the barrier that it begins with.
class ExternalTask final : public Task {
 public:
  ExternalTask(Mailbox& mailbox, std::unique_ptr<Task> entry,
               std::unique_ptr<ExternalOperation> operation)
      : mailbox_(mailbox), entry_(std::move(entry)), operation_(std::move(operation)) {}

  Result<Progress> advance() override;
  bool ready() const override { return mailbox_.failed() || (!entered_ && entry_->ready()); }
  std::vector<Rank> awaited() const override {
    return entered_ ? std::vector<Rank>() : entry_->awaited();
  }
  void cancel() override;
  bool all_entered() const override { return entered_; }
  Duration poll_period() const override;

 private:
  Mailbox& mailbox_;
  const std::unique_ptr<Task> entry_;
  const std::unique_ptr<ExternalOperation> operation_;
  bool entered_ = false;
  bool complete_ = false;
};

}  // namespace tally::collective
