#pragma once
#include <algorithm>

#include "tally/deadline.h"

namespace tally::server {

// How long the directory waits for a member from which it hears nothing.
struct SilenceLimits {
  Duration silence{};
  // Members whose processes are known to live are waited for longer: the others without limit, and
  // a server with copies for `failover`.
  bool waits_for_living = false;
  Duration failover{};

  // No member is given up after a shorter silence.
  Duration shortest() const { return waits_for_living ? std::min(silence, failover) : silence; }
};

struct SilentMember {
  Duration silence{};
  bool lives = false;  // its process is known to live, perhaps stopped or starved
  // A server, and another server that is heard of has all parts of each of its slots: the other
  // server takes over without a loss.
  bool is_copied = false;
};

enum class SilenceVerdict { kHeard, kWait, kGiveUp };

// The rule for silent members. A worker or a server without copies takes what it has with it, so
// nothing but the end of its process is reason enough to give it up where that end can be seen.
inline SilenceVerdict judge(const SilentMember& member, const SilenceLimits& limits) {
  const bool is_late = member.silence > limits.silence;
  if (!limits.waits_for_living || !member.lives)
    return is_late ? SilenceVerdict::kGiveUp : SilenceVerdict::kHeard;
  if (member.is_copied && member.silence > limits.failover) return SilenceVerdict::kGiveUp;
  return is_late ? SilenceVerdict::kWait : SilenceVerdict::kHeard;
}

}  // namespace tally::server
