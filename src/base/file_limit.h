#pragma once
#include <sys/resource.h>

#include <cstdint>

namespace tally {

// Whether a file of this size is larger than the limit of this process (`ulimit -f`). The kernel
// answers a larger write or ftruncate() with SIGXFSZ, which ends the process; a library cannot
// ignore signals for its application, so it asks before it writes.
inline bool exceeds_file_limit(std::uint64_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         bytes > limit.rlim_cur;
}

}  // namespace tally
