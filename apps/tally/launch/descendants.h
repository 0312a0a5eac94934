#pragma once
#include <sys/types.h>

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "tally/deadline.h"

namespace tally::launch {

struct Kin {
  pid_t parent = 0;
  pid_t session = 0;
};
using Processes = std::map<pid_t, Kin>;

// Processes below this one that it has not started: a shell may start processes and then exec this
// program. A process cannot move into a session that is older than itself, so all processes in the
// sessions of bystanders belong to bystanders.
struct Bystanders {
  std::set<pid_t> processes;
  std::set<pid_t> sessions;
};

// Returns the processes below `ancestor` without the bystanders and the processes below them.
std::vector<pid_t> descendants_of(pid_t ancestor, const Processes& all,
                                  const Bystanders& spared = {});

// Returns all processes below `own` among `all`, with their sessions and that of `own`.
Bystanders bystanders_of(pid_t own, const Processes& all);
// The same for this process at this moment. Processes that it starts later must be in sessions of
// their own.
Bystanders bystanders();

// Whether the process is stopped, by a signal or a debugger.
bool is_stopped(pid_t pid);

// Makes this process the parent of orphans among its descendants.
void adopt_orphans();

// Sends SIGKILL once to all processes below this one except `spared`, and reaps none. Returns their
// number.
std::size_t signal_descendants(const Bystanders& spared = {});

// Kills and reaps all processes below this one except `spared`, in any group or session; their
// children are found because they are reparented to this process, see adopt_orphans(). False if
// some are left at `by`: a process in an uninterruptible system call cannot be killed. Threads:
// one, and none that waits for children.
bool kill_descendants(Deadline by, const Bystanders& spared = {});

}  // namespace tally::launch
