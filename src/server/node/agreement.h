#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
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
  Answers set_members(const std::vector<WorkerInfo>& workers) {
    members_.clear();
    for (const WorkerInfo& worker : workers) members_.emplace(worker.id, worker.rank);
    const auto is_gone = [&](const auto& entry) { return !members_.contains(entry.first); };
    std::erase_if(newest_, is_gone);
    std::erase_if(told_, is_gone);
    for (auto& [number, shares] : rounds_)
      for (auto& [worker, share] : shares)
        if (!members_.contains(worker)) share.waiting.reset();
    Answers answers;
    complete_rounds(answers);
    return answers;
  }

  // Contributes `values` to the round `request.clock`, counted from 1. A worker that repeats its
  // request gets the same answer again. kDropped: the worker joined later, and the others are past
  // this round. kRefused has an error: kInvalid if the worker is no member or the round is 0,
  // kMismatch if other workers sent another number of values, kExhausted if the worker has
  // contributed to too many rounds that are not complete. A request with kHadAnswer says that
  // another server has completed the round; workers that joined later are not in its sums.
  Answers offer(NodeId worker, const MessageHeader& request, std::vector<double> values) {
    const std::uint64_t number = request.clock;
    const auto round = rounds_.find(number);
    const bool was_in_it = round != rounds_.end() && round->second.contains(worker);
    if (members_.contains(worker) && number != 0 && !was_in_it &&
        (number <= completed_ || number + kFarApart <= gathered_now()))
      return {come_later(worker, request, gathered_now())};
    if (auto error = objection(worker, number, values))
      return {{.worker = worker,
               .request = request,
               .outcome = Outcome::kRefused,
               .number = number,
               .error = std::move(error)}};
    // A repeated request keeps its first values: other workers may have their sum.
    Share& share = rounds_[number][worker];
    if (!was_in_it) share.values = std::move(values);
    share.rank = members_.at(worker);
    share.waiting = request;
    const auto told = told_.find(worker);
    share.came_late = told != told_.end() && told->second == number;
    newest_[worker] = std::max(newest_[worker], number);
    Answers answers;
    if (request.push_kind == kHadAnswer) close(number, answers);
    drop_left_behind(number, answers);
    complete_rounds(answers);
    return answers;
  }

  // The connection to the worker is lost: its requests get no answer, but its values count.
  void forget(NodeId worker) {
    for (auto& [number, shares] : rounds_)
      if (const auto share = shares.find(worker); share != shares.end())
        share->second.waiting.reset();
  }

  // Another server takes over: all waiting requests are answered with kNotPrimary.
  Answers give_up() {
    Answers answers;
    for (auto& [number, shares] : rounds_)
      for (auto& [worker, share] : shares)
        if (share.waiting)
          answers.push_back({.worker = worker,
                             .request = *std::exchange(share.waiting, {}),
                             .outcome = Outcome::kNotPrimary});
    rounds_.clear();
    newest_.clear();
    told_.clear();
    return answers;
  }

 private:
  // Members are fewer rounds apart than this; a worker further behind has joined later.
  static constexpr std::uint64_t kFarApart = 2;

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
  std::uint64_t gathered_now() const {
    std::uint64_t newest = std::max(completed_, complete_elsewhere_) + 1;
    for (const auto& [worker, number] : newest_) newest = std::max(newest, number);
    return newest;
  }

  // Why the request is refused, if it is.
  std::optional<Error> objection(NodeId worker, std::uint64_t number,
                                 const std::vector<double>& values) const {
    if (!members_.contains(worker) || number == 0)
      return invalid("{} cannot agree on round {}", worker, number);
    std::uint64_t open = 0;
    for (auto round = rounds_.upper_bound(completed_); round != rounds_.end(); ++round)
      if (round->first != number && round->second.contains(worker)) ++open;
    if (open > kFarApart)
      return make_error(ErrorCode::kExhausted, "worker {} has not waited for {} agreements", worker,
                        open);
    const auto round = rounds_.find(number);
    if (round == rounds_.end() || round->second.empty()) return {};
    const auto& [first, share] = *round->second.begin();
    if (share.values.size() == values.size()) return {};
    return make_error(ErrorCode::kMismatch, "worker {} agrees on {} values, worker {} on {}",
                      worker, values.size(), first, share.values.size());
  }

  // Answers kDropped: the worker contributes to round `number` instead.
  Answer come_later(NodeId worker, const MessageHeader& request, std::uint64_t number) {
    told_[worker] = number;
    return {.worker = worker, .request = request, .outcome = Outcome::kDropped, .number = number};
  }

  // Some workers have the sum of this round from another server. Workers that this server sent to
  // the round are not in that sum, and move to a later one.
  void close(std::uint64_t number, Answers& answers) {
    complete_elsewhere_ = std::max(complete_elsewhere_, number);
    if (number <= completed_) return;
    std::erase_if(rounds_[number], [&](const auto& entry) {
      const auto& [worker, share] = entry;
      if (!share.came_late) return false;
      newest_.erase(worker);
      if (share.waiting) answers.push_back(come_later(worker, *share.waiting, gathered_now()));
      return true;
    });
  }

  void complete_rounds(Answers& answers) {
    for (auto& [number, shares] : rounds_) {
      const bool anybody_waits = std::any_of(shares.begin(), shares.end(), [](const auto& entry) {
        return entry.second.waiting.has_value();
      });
      if (!anybody_waits || (number > completed_ && !is_complete(number, shares))) continue;
      completed_ = std::max(completed_, number);
      std::vector<const Share*> by_rank;
      for (const auto& [worker, share] : shares) by_rank.push_back(&share);
      std::stable_sort(by_rank.begin(), by_rank.end(),
                       [](const Share* a, const Share* b) { return a->rank < b->rank; });
      std::vector<double> sums(by_rank.front()->values.size());
      for (const Share* share : by_rank)
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += share->values[i];
      for (auto& [worker, share] : shares)
        if (share.waiting)
          answers.push_back({.worker = worker,
                             .request = *std::exchange(share.waiting, {}),
                             .number = number,
                             .sums = sums});
    }
    // Keeps the last two complete rounds: a worker may repeat its request, one round behind.
    while (!rounds_.empty() && rounds_.begin()->first + 1 < completed_)
      rounds_.erase(rounds_.begin());
  }

  bool is_complete(std::uint64_t number, const Shares& shares) const {
    return std::all_of(members_.begin(), members_.end(), [&](const auto& member) {
      const auto newest = newest_.find(member.first);
      return shares.contains(member.first) || (newest != newest_.end() && newest->second > number);
    });
  }

  // Moves workers whose newest round is two or more before `newest` to the current round.
  void drop_left_behind(std::uint64_t newest, Answers& answers) {
    for (auto& [number, shares] : rounds_) {
      if (number <= completed_ || number + kFarApart > newest) continue;
      for (auto& [worker, share] : shares) {
        if (!share.waiting || newest_[worker] != number) continue;
        answers.push_back(come_later(worker, *std::exchange(share.waiting, {}), gathered_now()));
        newest_.erase(worker);
      }
    }
  }

  std::map<NodeId, std::int32_t> members_;  // rank of each member
  std::map<NodeId, std::uint64_t> newest_;  // newest round of each worker
  std::map<std::uint64_t, Shares> rounds_;  // the last two complete ones, and the open ones
  std::uint64_t completed_ = 0;             // newest round that this server has completed
  std::uint64_t complete_elsewhere_ = 0;    // newest round that came with kHadAnswer
  std::map<NodeId, std::uint64_t> told_;    // number of the last kDropped to each worker
};

}  // namespace tally::server
