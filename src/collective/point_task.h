#pragma once
#include "collective/mailbox.h"
#include "collective/task.h"
#include "tally/communicator.h"

namespace tally::collective {

// One side of a send/receive pair. Messages of one sender with one tag arrive in the order sent.
class PointTask final : public Task {
 public:
  PointTask(Mailbox& mailbox, const Request& request, const wire::Signature& signature,
            Traffic& traffic);
  ~PointTask() override { cancel(); }

  Result<Progress> advance() override;
  bool ready() const override { return done() || mailbox_.failed(); }
  std::vector<Rank> awaited() const override;
  void cancel() override;

 private:
  bool done() const { return sending_ ? outgoing_.sent() : incoming_.done; }

  Mailbox& mailbox_;
  const bool sending_;
  const Rank peer_;
  net::Outgoing outgoing_;
  Incoming incoming_;
  bool posted_ = false;
};

}  // namespace tally::collective
