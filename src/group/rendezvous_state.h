#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "group/bodies.h"

namespace tally::group {

// Who has come to the rendezvous, and what follows from it. Decides only: hears of arrivals, knows
// no clock and no socket. Its host is among those who come.
class Gathering {
 public:
  // Waits for ranks 0..size-1 in `generation`, except those that turn out to be lost.
  Gathering(int size, std::uint32_t generation) : size_(size), generation_(generation) {}

  // Somebody who proved to belong here. An error is the verdict for everybody: it came twice, or
  // disagrees with another about the job.
  Result<void> arrive(const Hello& hello);

  // A connection was turned away; `claimed` is what it called itself, perhaps nothing.
  void turn_away(const std::string& claimed, const Error& why);

  bool complete() const { return missing().empty(); }
  std::vector<Rank> missing() const;

  // The members in the order of their old ranks.
  std::vector<Hello> members() const;

  // The verdict if nobody comes any more: names who is missing and what is known about it.
  Error verdict_at_deadline() const;

 private:
  Result<void> compare(const Hello& first, const Hello& second) const;

  const int size_;
  const std::uint32_t generation_;
  std::map<Rank, Hello> present_;
  std::set<Rank> lost_;
  std::map<std::string, Error> turned_away_;  // the last one for each name claimed
};

// "rank 3" for "tally rank 3", as TLS identities say it; kNoRank if it is not one.
Rank rank_in_identity(const std::string& identity);

}  // namespace tally::group
