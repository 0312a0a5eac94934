#pragma once
#include <cstddef>
#include <deque>
#include <vector>

#include "collective/algorithms.h"
#include "collective/mailbox.h"
#include "collective/schedule.h"
#include "collective/task.h"
#include "tally/communicator.h"

namespace tally::collective {

// Runs a Schedule over the mailbox, as many steps at once as the schedule allows.
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
  // An action of a step under way.
  struct Pending {
    enum class State { kWaiting, kStarted, kDone };

    const Action* action = nullptr;
    std::size_t step = 0;
    State state = State::kWaiting;
    net::Outgoing outgoing = {};  // kSend
    Incoming incoming = {};       // kReceive, kCombine
  };

  void open_steps();
  void start_actions();
  bool finish_actions();
  bool must_wait(const Pending& pending) const;
  void start(Pending& pending);
  static bool finished(const Pending& pending);
  std::byte* at(const Block& block);
  const std::byte* at(const Block& block) const;
  Rank member(Rank peer) const;

  Mailbox& mailbox_;
  const Schedule schedule_;
  const Options options_;
  Traffic& traffic_;
  std::vector<std::byte> scratch_;
  std::size_t next_step_ = 0;
  // The actions of the steps under way, in order. The mailbox and the transport hold pointers to
  // elements: a deque keeps them in place while actions are added and removed at its ends.
  std::deque<Pending> pending_;
};

}  // namespace tally::collective
