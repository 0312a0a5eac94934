#pragma once
#include <sys/types.h>

#include <cstddef>
#include <map>
#include <vector>

#include "tally/deadline.h"

namespace tally::launch {

// Everybody who has `ancestor` above, given who the parent of each process is.
std::vector<pid_t> descendants_of(pid_t ancestor, const std::map<pid_t, pid_t>& parent_of);

// Makes this process the parent of what its children leave behind when they end.
void adopt_orphans();

// Sends SIGKILL to all processes below this one, once, and reaps none. How many there are.
std::size_t signal_descendants();

// Kills all processes below this one, whatever group or session they are in, and reaps them; their
// children are found because they become ours, see adopt_orphans(). False if some are left at `by`
// (one that sits in a system call of a dead disk cannot be killed). Threads: one, and none that waits for
// children.
bool kill_descendants(Deadline by);

}  // namespace tally::launch
