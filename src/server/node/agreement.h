#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "server/protocol/message.h"
#include "server/protocol/view.h"
#include "tally/error.h"

namespace tally::server {

// All-reduce of a few doubles over the workers, in rounds: round k is complete when every member
// has contributed to it or to a later one. Values are summed in the order of ranks, so that a round
// which is repeated on another server has the same bits. An Agreement has no clock, thread or
// socket: its methods return the answers, and the caller sends them. Threads: calls must not
// overlap.
class Agreement {
 public:
  struct Answer {
    NodeId worker = kNoNode;
    MessageHeader request;  // that is answered
    Outcome outcome = Outcome::kDone;
    std::uint64_t number = 0;    // kDone: this round; kDropped: the round to contribute to next
    std::vector<double> sums;    // kDone
    std::optional<Error> error;  // kRefused
  };
  using Answers = std::vector<Answer>;

  // Rounds no longer wait for workers that left, but count the values that these have contributed.
  Answers set_members(const std::vector<WorkerInfo>& workers);
  // Contributes `values` to the round `request.clock`, counted from 1. A worker that repeats its
  // request gets the same answer again. kDropped: the worker joined later, and the others are past
  // this round. kRefused has an error: kInvalid if the worker is no member or the round is 0,
  // kMismatch if other workers sent another number of values, kExhausted if the worker has
  // contributed to too many rounds that are not complete. A request with kHadAnswer says that
  // another server has completed the round; workers that joined later are not in its sums.
  Answers offer(NodeId worker, const MessageHeader& request, std::vector<double> values);
  // The connection to the worker is lost: its requests get no answer, but its values count.
  void forget(NodeId worker);
  // Another server takes over: all waiting requests are answered with kNotPrimary.
  Answers give_up();

 private:
  // A worker's contribution to a round.
  struct Share {
    std::int32_t rank = 0;
    bool came_late = false;  // this server answered the worker kDropped with this round
    std::vector<double> values;
    std::optional<MessageHeader> waiting;  // the request, until it is answered
  };
  using Shares = std::map<NodeId, Share>;

  // The current round: the newest one with a contribution, or else the one after the last complete
  // round.
  std::uint64_t gathered_now() const;
  // Why the request is refused, if it is.
  std::optional<Error> objection(NodeId worker, std::uint64_t number,
                                 const std::vector<double>& values) const;
  // Answers kDropped: the worker contributes to round `number` instead.
  Answer come_later(NodeId worker, const MessageHeader& request, std::uint64_t number);
  // Another server has completed the round: workers that came late move to a newer one.
  void close(std::uint64_t number, Answers& answers);
  void complete_rounds(Answers& answers);
  bool is_complete(std::uint64_t number, const Shares& shares) const;
  // Moves workers whose newest round is two or more before `newest` to the current round.
  void drop_left_behind(std::uint64_t newest, Answers& answers);

  std::map<NodeId, std::int32_t> members_;  // rank of each member
  std::map<NodeId, std::uint64_t> newest_;  // newest round of each worker
  std::map<std::uint64_t, Shares> rounds_;  // the last two complete ones, and the open ones
  std::uint64_t completed_ = 0;             // newest round that this server has completed
  std::uint64_t complete_elsewhere_ = 0;    // newest round that came with kHadAnswer
  std::map<NodeId, std::uint64_t> told_;    // number of the last kDropped to each worker
};

}  // namespace tally::server
