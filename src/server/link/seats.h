#pragma once
#include <array>
#include <cstddef>
#include <unordered_map>

#include "base/mutex.h"
#include "server/link/greeting.h"

namespace tally::server {

// Which of a driver's loops serves a peer: those of one role take turns, so that two workers have
// two threads whatever their numbers are. A peer keeps its seat, also if it calls again. Threads:
// safe.
class Seats final {
 public:
  // `loops` is the same in all calls, at least 1.
  std::size_t take(NodeId peer, Role role, std::size_t loops) {
    const MutexLock lock(mutex_);
    const auto found = seats_.find(peer);
    if (found != seats_.end()) return found->second;
    // Beyond any number of peers in good faith none is remembered.
    if (seats_.size() >= kMost) return peer % loops;
    std::size_t& next = next_[static_cast<std::size_t>(role) % next_.size()];
    return seats_[peer] = next++ % loops;
  }
  // Of a peer that has taken one.
  std::size_t of(NodeId peer, std::size_t loops) const {
    const MutexLock lock(mutex_);
    const auto found = seats_.find(peer);
    return found != seats_.end() ? found->second : peer % loops;
  }

 private:
  static constexpr std::size_t kMost = 65536;

  mutable Mutex mutex_;
  std::unordered_map<NodeId, std::size_t> seats_ TALLY_GUARDED_BY(mutex_);
  std::array<std::size_t, 4> next_ TALLY_GUARDED_BY(mutex_) = {};  // by role
};

}  // namespace tally::server
