#include "group/local_process.h"

#include <poll.h>

#include <sstream>

#include <fmt/format.h>

#include "base/file.h"
#include "group/host.h"
#include "net/segment_share.h"

namespace tally::group {
namespace {

// Field 22 of /proc/PID/stat (proc(5)); 0: not known. Field 2, the name of the program in
// parentheses, may contain anything.
std::uint64_t start_of(pid_t pid) {
  const std::string stat = file_contents(fmt::format("/proc/{}/stat", pid)).value_or("");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::uint64_t start = 0;
  return fields >> start ? start : 0;
}

}  // namespace

LocalProcess::LocalProcess(const std::string& host, pid_t pid, std::uint64_t started) {
  const auto here = host_identity("");
  if (pid <= 0 || !here.has_value() || host != *here) return;
  auto process = net::watch_process({.pid = pid});
  if (!process.has_value()) return;
  process_ = *std::move(process);
  // If it has ended meanwhile, the file may be that of another process.
  const std::uint64_t found = start_of(pid);
  if (!ended()) started_ = found;
  if (started != 0 && started != started_) process_.reset();
}

bool LocalProcess::ended() const {
  if (!known()) return false;
  pollfd entry{.fd = process_.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace tally::group
