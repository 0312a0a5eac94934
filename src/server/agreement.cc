#include "server/agreement.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tally::server {
namespace {

// Members are at most so far apart: who is further behind has not been there all the time.
constexpr std::uint64_t kFarApart = 2;

}  // namespace

std::uint64_t Agreement::gathered_now() const {
  std::uint64_t newest = completed_ + 1;
  for (const auto& [worker, number] : newest_) newest = std::max(newest, number);
  return newest;
}

Agreement::Answers Agreement::set_members(const std::vector<WorkerInfo>& workers) {
  members_.clear();
  for (const WorkerInfo& worker : workers) members_.emplace(worker.id, worker.rank);
  std::erase_if(newest_, [&](const auto& entry) { return !members_.contains(entry.first); });
  for (auto& [number, shares] : rounds_)
    for (auto& [worker, share] : shares)
      if (!members_.contains(worker)) share.waiting.reset();
  Answers answers;
  complete_rounds(answers);
  return answers;
}

Agreement::Answers Agreement::offer(NodeId worker, const MessageHeader& request,
                                    std::vector<double> values) {
  const std::uint64_t number = request.clock;
  Answer answer{.worker = worker, .request = request, .number = number};
  const auto member = members_.find(worker);
  if (member == members_.end() || number == 0) {
    answer.outcome = Outcome::kRefused;
    answer.error = Error{.code = ErrorCode::kInvalid,
                         .message = fmt::format("{} cannot agree on round {}", worker, number)};
    return {answer};
  }
  auto round = rounds_.find(number);
  const bool was_in_it = round != rounds_.end() && round->second.contains(worker);
  if (!was_in_it && (number <= completed_ || number + kFarApart <= gathered_now())) {
    answer.outcome = Outcome::kDropped;
    answer.number = gathered_now();
    return {answer};
  }
  if (round == rounds_.end()) round = rounds_.emplace(number, Shares{}).first;
  Shares& shares = round->second;
  if (!shares.empty() && shares.begin()->second.values.size() != values.size()) {
    answer.outcome = Outcome::kRefused;
    answer.error = Error{.code = ErrorCode::kMismatch,
                         .message = fmt::format("worker {} agrees on {} values, worker {} on {}",
                                                worker, values.size(), shares.begin()->first,
                                                shares.begin()->second.values.size())};
    return {answer};
  }
  // Offered again: the first values stay, as others may have been told their sum.
  Share& share = shares[worker];
  if (!was_in_it) share.values = std::move(values);
  share.rank = member->second;
  share.waiting = request;
  newest_[worker] = std::max(newest_[worker], number);
  Answers answers;
  drop_left_behind(number, answers);
  complete_rounds(answers);
  return answers;
}

void Agreement::drop_left_behind(std::uint64_t newest, Answers& answers) {
  for (auto& [number, shares] : rounds_) {
    if (number <= completed_ || number + kFarApart > newest) continue;
    for (auto& [worker, share] : shares) {
      if (!share.waiting || newest_[worker] != number) continue;
      answers.push_back({.worker = worker,
                         .request = *std::exchange(share.waiting, {}),
                         .outcome = Outcome::kDropped,
                         .number = newest});
      newest_.erase(worker);
    }
  }
}

bool Agreement::is_complete(std::uint64_t number, const Shares& shares) const {
  return std::all_of(members_.begin(), members_.end(), [&](const auto& member) {
    const auto newest = newest_.find(member.first);
    return shares.contains(member.first) || (newest != newest_.end() && newest->second > number);
  });
}

void Agreement::complete_rounds(Answers& answers) {
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
  // The last complete one may be asked for again, and the one before by who is one behind.
  while (!rounds_.empty() && rounds_.begin()->first + 1 < completed_)
    rounds_.erase(rounds_.begin());
}

void Agreement::forget(NodeId worker) {
  for (auto& [number, shares] : rounds_)
    if (const auto share = shares.find(worker); share != shares.end())
      share->second.waiting.reset();
}

Agreement::Answers Agreement::give_up() {
  Answers answers;
  for (auto& [number, shares] : rounds_)
    for (auto& [worker, share] : shares)
      if (share.waiting)
        answers.push_back({.worker = worker,
                           .request = *std::exchange(share.waiting, {}),
                           .outcome = Outcome::kElsewhere});
  rounds_.clear();
  newest_.clear();
  return answers;
}

}  // namespace tally::server
