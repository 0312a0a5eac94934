#include "apps/tally/launch/descendants.h"

#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "base/clock.h"

namespace tally::launch {
namespace {

constexpr int kPauseMilliseconds = 2;

// From "PID (NAME) STATE PARENT ...", where the name may have anything in it. 0: gone, or a zombie, which only
// its parent can remove.
pid_t parent_in_stat(const std::string& stat) {
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream words(stat.substr(name_end + 1));
  char state = 'Z';
  pid_t parent = 0;
  words >> state >> parent;
  return parent;
}

std::map<pid_t, pid_t> parents() {
  std::map<pid_t, pid_t> parent_of;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) return parent_of;
  while (const dirent* entry = ::readdir(folder.get())) {
    pid_t pid = 0;
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr != end) continue;
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    const std::string stat{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (const pid_t parent = parent_in_stat(stat); parent > 0) parent_of[pid] = parent;
  }
  return parent_of;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t ancestor, const std::map<pid_t, pid_t>& parent_of) {
  std::vector<pid_t> found{ancestor};
  for (std::size_t at = 0; at < found.size(); ++at)
    for (const auto& [pid, parent] : parent_of)
      if (parent == found[at] && pid != ancestor) found.push_back(pid);
  found.erase(found.begin());
  return found;
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::size_t signal_descendants() {
  const std::vector<pid_t> found = descendants_of(::getpid(), parents());
  for (const pid_t pid : found) ::kill(pid, SIGKILL);
  return found.size();
}

bool kill_descendants(Deadline by) {
  const SteadyClock clock;
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    // What is killed may have had children that become ours only now: look until nobody is found.
    if (signal_descendants() == 0) return true;
    if (by.passed(clock.now())) return false;
    ::poll(nullptr, 0, kPauseMilliseconds);
  }
}

}  // namespace tally::launch
