#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace tally::process {

// The state of this machine's processes, as /proc has it. A process that has ended has no parent,
// state, variables and words.

std::vector<pid_t> all_processes();
// 0: none.
pid_t parent_of(pid_t pid);
// 'R' runs, 'S' sleeps, 'T' is stopped; 0: none.
char state_of(pid_t pid);
// The value of a variable in the environment that the process was started with.
std::optional<std::string> variable_of(pid_t pid, const std::string& name);
// Its command line, with a blank after each word.
std::string words_of(pid_t pid);

}  // namespace tally::process
