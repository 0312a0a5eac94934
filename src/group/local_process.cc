#include "group/local_process.h"

#include <poll.h>

#include "group/host.h"
#include "net/segment_share.h"

namespace tally::group {

LocalProcess::LocalProcess(const std::string& host, pid_t pid) {
  const auto here = host_identity("");
  if (pid <= 0 || !here.has_value() || host != *here) return;
  auto process = net::watch_process({.pid = pid});
  if (process.has_value()) process_ = *std::move(process);
}

bool LocalProcess::ended() const {
  if (!known()) return false;
  pollfd entry{.fd = process_.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace tally::group
