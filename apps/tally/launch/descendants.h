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

// Who is below this process without having been started by it: a shell may start processes and then
// become this one. Nobody can move into a session that is older than itself, so whoever is in one
// of theirs is theirs.
struct Bystanders {
  std::set<pid_t> processes;
  std::set<pid_t> sessions;
};

// Everybody who has `ancestor` above, other than bystanders and who is below them.
std::vector<pid_t> descendants_of(pid_t ancestor, const Processes& all,
                                  const Bystanders& spared = {});

// All who are below `own` among `all`, with the sessions of them and of `own`.
Bystanders bystanders_of(pid_t own, const Processes& all);
// The same for this process and now. What it starts later is to be in sessions of its own.
Bystanders bystanders();

// Whether it waits for SIGCONT, or for a debugger.
bool is_stopped(pid_t pid);

// Makes this process the parent of what its children leave behind when they end.
void adopt_orphans();

// Sends SIGKILL to all processes below this one but those spared, once, and reaps none. How many
// there are.
std::size_t signal_descendants(const Bystanders& spared = {});

// Kills all processes below this one but those spared, whatever group or session they are in, and
// reaps them; their children are found because they become ours, see adopt_orphans(). False if some
// are left at `by` (one that sits in a system call of a dead disk cannot be killed). Threads: one,
// and none that waits for children.
bool kill_descendants(Deadline by, const Bystanders& spared = {});

}  // namespace tally::launch
