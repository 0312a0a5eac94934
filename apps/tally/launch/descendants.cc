#include "apps/tally/launch/descendants.h"

#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"

namespace tally::launch {
namespace {

constexpr int kPauseMilliseconds = 2;

// Parses "PID (NAME) STATE PARENT GROUP SESSION ...", where the name may contain any character. No
// parent: the process is gone.
Kin kin_of(pid_t pid, char* state_letter = nullptr) {
  const std::string stat = file_contents(fmt::format("/proc/{}/stat", pid)).value_or("");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream words(stat.substr(name_end + 1));
  char state = 'Z';
  pid_t group = 0;
  Kin kin;
  words >> state >> kin.parent >> group >> kin.session;
  if (state_letter != nullptr) *state_letter = state;
  return kin;
}

Processes all_processes() {
  Processes all;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) return all;
  while (const dirent* entry = ::readdir(folder.get())) {
    pid_t pid = 0;
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr != end) continue;
    if (const Kin kin = kin_of(pid); kin.parent > 0) all[pid] = kin;
  }
  return all;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t ancestor, const Processes& all, const Bystanders& spared) {
  std::vector<pid_t> found{ancestor};
  for (std::size_t at = 0; at < found.size(); ++at)
    for (const auto& [pid, kin] : all)
      if (kin.parent == found[at] && pid != ancestor && !spared.processes.contains(pid) &&
          !spared.sessions.contains(kin.session))
        found.push_back(pid);
  found.erase(found.begin());
  return found;
}

Bystanders bystanders_of(pid_t own, const Processes& all) {
  const std::vector<pid_t> below = descendants_of(own, all);
  Bystanders result{.processes = {below.begin(), below.end()}, .sessions = {}};
  if (all.contains(own)) result.sessions.insert(all.at(own).session);
  for (const pid_t pid : below) result.sessions.insert(all.at(pid).session);
  return result;
}

Bystanders bystanders() { return bystanders_of(::getpid(), all_processes()); }

bool is_stopped(pid_t pid) {
  char state = 'Z';
  kin_of(pid, &state);
  return state == 'T' || state == 't';
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::size_t signal_descendants(const Bystanders& spared) {
  const std::vector<pid_t> found = descendants_of(::getpid(), all_processes(), spared);
  for (const pid_t pid : found) ::kill(pid, SIGKILL);
  return found.size();
}

bool kill_descendants(Deadline by, const Bystanders& spared) {
  const SteadyClock clock;
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    // A killed process may have had children that are reparented only now: repeat until none is
    // found.
    if (signal_descendants(spared) == 0) return true;
    if (by.passed(clock.now())) return false;
    ::poll(nullptr, 0, kPauseMilliseconds);
  }
}

}  // namespace tally::launch
