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
// has contributed to it or to a later one. Values are summed in the order of ranks, so a repeated
// round gives the same bits on any server. A value without clock or thread; the caller sends the
// answers.
class Agreement {
 public:
  struct Answer {
    NodeId worker = kNoNode;
    MessageHeader request;
    Outcome outcome = Outcome::kDone;
    std::uint64_t number = 0;  // kDone: this round; kDropped: the current round
    std::vector<double> sums;
    std::optional<Error> error;  // kRefused
  };
  using Answers = std::vector<Answer>;

  // Rounds do not wait for workers that left; their earlier values count.
  Answers set_members(const std::vector<WorkerInfo>& workers);
  // `request.clock` is the round, from 1. A worker that was in the round gets the same answer
  // again. kDropped: the worker joined later, and the others are past this round. kExhausted: the
  // worker waits for none of its rounds. A request with kHadAnswer says that the round was complete
  // on another server; workers that joined later are not in it.
  Answers offer(NodeId worker, const MessageHeader& request, std::vector<double> values);
  // The link to the worker is lost: its requests get no answer, its values count.
  void forget(NodeId worker);
  // Another server continues: all requests are answered kNotPrimary.
  Answers give_up();

 private:
  struct Share {
    std::int32_t rank = 0;
    bool came_late = false;  // this server told it the number of the round
    std::vector<double> values;
    std::optional<MessageHeader> waiting;
  };
  using Shares = std::map<NodeId, Share>;

  std::uint64_t gathered_now() const;
  std::optional<Error> objection(NodeId worker, std::uint64_t number,
                                 const std::vector<double>& values) const;
  Answer come_later(NodeId worker, const MessageHeader& request, std::uint64_t number);
  void close(std::uint64_t number, Answers& answers);
  void complete_rounds(Answers& answers);
  bool is_complete(std::uint64_t number, const Shares& shares) const;
  void drop_left_behind(std::uint64_t newest, Answers& answers);

  std::map<NodeId, std::int32_t> members_;  // and their ranks
  std::map<NodeId, std::uint64_t> newest_;  // round of each worker
  std::map<std::uint64_t, Shares> rounds_;  // the last complete ones, and the open ones
  std::uint64_t completed_ = 0;
  std::uint64_t complete_elsewhere_ = 0;
  std::map<NodeId, std::uint64_t> told_;  // first round of workers that joined later
};

}  // namespace tally::server
