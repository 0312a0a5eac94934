#pragma once
#include <algorithm>

#include "tally/deadline.h"

namespace tally::server {

// How long the directory waits for a member from which it hears nothing.
struct SilenceLimits {
  Duration silence{};
  // The directory waits for a member whose process lives: for a server with copies up to
  // `failover`, for all others without limit.
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

// kFine: it is not silent for long. kWait: it is, and the job waits for it.
enum class SilenceVerdict { kFine, kWait, kGiveUp };

// The rule for silent members. Giving up a worker, or a server without copies, loses its data: the
// directory does so only when the process has ended, if it can see that.
inline SilenceVerdict judge(const SilentMember& member, const SilenceLimits& limits) {
  const bool is_late = member.silence > limits.silence;
  if (!limits.waits_for_living || !member.lives)
    return is_late ? SilenceVerdict::kGiveUp : SilenceVerdict::kFine;
  if (member.is_copied && member.silence > limits.failover) return SilenceVerdict::kGiveUp;
  return is_late ? SilenceVerdict::kWait : SilenceVerdict::kFine;
}

}  // namespace tally::server
