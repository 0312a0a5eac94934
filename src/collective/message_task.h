#pragma once
#include <cstddef>
#include <vector>

#include "collective/mailbox.h"
#include "collective/schedule.h"
#include "collective/task.h"
#include "tally/communicator.h"

namespace tally::collective {

// Runs a Schedule over the mailbox.
class MessageTask final : public Task {
 public:
  struct Options {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::uint32_t sequence = 0;
    wire::Signature signature;
    DataType type = DataType::kUInt8;
    ReduceOp op = ReduceOp::kSum;
    int divisor = 1;                  // of kDivide
    std::vector<Rank> group;          // the schedule's ranks in the communicator; empty: the same
    std::uint32_t first_message = 0;  // keeps the stages of one operation apart
  };

  MessageTask(Mailbox& mailbox, Schedule schedule, Options options, Traffic& traffic);
  ~MessageTask() override { cancel(); }

  Result<Progress> advance() override;
  bool ready() const override;
  std::vector<Rank> awaited() const override;
  void cancel() override;

 private:
  struct Sending {
    Rank to;
    net::Outgoing outgoing;
  };
  void start_step();
  bool step_complete() const;
  std::byte* at(const Block& block);
  void copy(const Action& action);
  Rank member(Rank peer) const;

  Mailbox& mailbox_;
  const Schedule schedule_;
  const Options options_;
  Traffic& traffic_;
  std::vector<std::byte> scratch_;
  std::size_t next_step_ = 0;
  std::vector<Sending> sends_;  // of the step under way
  std::vector<Incoming> receives_;
};

}  // namespace tally::collective
