#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "server/protocol/message.h"
#include "server/protocol/view.h"
#include "tally/error.h"

namespace tally::server {

// Sums over all workers, one after the other: round k is complete when every member has offered to
// it or to a later one. Each sum is taken by rank, so it has the same bits wherever it is taken
// again. A value without clock or thread; answers are for the caller to send.
class Agreement {
 public:
  struct Answer {
    NodeId worker = kNoNode;
    MessageHeader request;
    Outcome outcome = Outcome::kDone;
    std::uint64_t number = 0;  // kDone: the round's; kDropped: that which is gathered now
    std::vector<double> sums;
    std::optional<Error> error;  // kRefused
  };
  using Answers = std::vector<Answer>;

  // Those who left are not waited for; what they had offered counts.
  Answers set_members(const std::vector<WorkerInfo>& workers);
  // `request.clock` is the round's number, from 1. A round that this worker was part of is answered
  // again. kDropped: the round is over, or nobody is near it: the worker came later. kExhausted if
  // the worker does not wait for any of its rounds. A request with kHadAnswer tells that the round
  // was complete on another server: who came later is not in it.
  Answers offer(NodeId worker, const MessageHeader& request, std::vector<double> values);
  // The worker's questions cannot be answered any more; what it offered counts.
  void forget(NodeId worker);
  // Everything goes elsewhere.
  Answers give_up();

 private:
  struct Share {
    std::int32_t rank = 0;
    bool came_late = false;  // it has the round's number from here
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
  std::map<NodeId, std::uint64_t> newest_;  // that each has offered to
  std::map<std::uint64_t, Shares> rounds_;  // the last complete ones, and those that are gathered
  std::uint64_t completed_ = 0;
  std::uint64_t complete_elsewhere_ = 0;
  std::map<NodeId, std::uint64_t> told_;  // those who came later: their first round
};

}  // namespace tally::server
