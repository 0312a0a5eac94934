#pragma once
#include <memory>
#include <set>
#include <string>

#include "group/control.h"

namespace tally::group {

// One connection to a coordinator, and who is at its other end.
struct CoordinatorSession {
  enum class Role { kUnknown, kRank, kObserver };

  CoordinatorSession(std::unique_ptr<net::Stream> stream, std::string caller, bool is_local,
                     TimePoint now);

  net::MessageConnection connection;
  const std::string from;  // for people
  const bool local;        // this machine, this user: asks, and is no rank
  const TimePoint opened;
  Role role = Role::kUnknown;
  bool over = false;  // to be dropped once everything has been sent
  bool dead = false;  // to be dropped now
  TimePoint over_since{};

  // Of a rank.
  Rank rank = kNoRank;
  std::uint32_t generation = 0;
  std::int64_t pid = 0;
  std::string host;

  // Of an observer: whose traces it still waits for, and until when.
  std::set<Rank> awaited;
  TimePoint traces_by{};

  bool is_rank_of(std::uint32_t of) const {
    return role == Role::kRank && generation == of && !over && !dead;
  }
  void refuse(const Error& why, TimePoint now);
};

}  // namespace tally::group
