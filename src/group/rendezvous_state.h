#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "group/bodies.h"

namespace tally::group {

// The ranks that have arrived at the rendezvous, and the decisions that follow. Pure: it has no
// clock and no socket. The host itself also arrives.
class RendezvousState {
 public:
  // Expects ranks 0..size-1 of `generation`, except those that are reported lost.
  RendezvousState(int size, std::uint32_t generation) : size_(size), generation_(generation) {}

  // A rank of this job has arrived. An error ends the rendezvous for all: the rank arrived twice,
  // or its job options differ from those of another rank.
  Result<void> arrive(const Hello& hello);

  // A connection was refused; `claimed` is its identity, which may be empty.
  void turn_away(const std::string& claimed, const Error& why);

  bool complete() const { return missing().empty(); }
  std::vector<Rank> missing() const;

  // The members, ordered by the rank with which they arrived.
  std::vector<Hello> members() const;

  // The error when the deadline passes: names the missing ranks and the refused connections.
  Error error_at_deadline() const;

 private:
  Result<void> compare(const Hello& first, const Hello& second) const;

  const int size_;
  const std::uint32_t generation_;
  std::map<Rank, Hello> present_;
  std::set<Rank> lost_;
  std::map<std::string, Error> turned_away_;  // the last error by claimed identity
};

// 3 for the TLS identity "tally rank 3"; kNoRank for any other text.
Rank rank_in_identity(const std::string& identity);

}  // namespace tally::group
