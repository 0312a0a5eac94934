#pragma once
#include <functional>
#include <string>
#include <vector>

#include "apps/tally/launch/launch_options.h"
#include "apps/tally/launch/messages.h"
#include "tally/error.h"

namespace tally::launch {

// Whether a name means the machine `own_name`, on which we are.
bool means_this_machine(const std::string& host, const std::string& own_name);

// The command that starts the agent of a host; empty: directly, by running our own program.
std::vector<std::string> agent_command(const LaunchOptions& options, const std::string& host,
                                       const std::string& own_name, const std::string& own_program);

// `word` so that a shell takes it for one.
std::string quoted(const std::string& word);

// What ranks on other hosts get of our environment (entries "NAME=VALUE"): PATH, LD_LIBRARY_PATH
// and what begins with TALLY_ or OMP_.
Variables variables_to_pass_on(const std::vector<std::string>& environment);

// Where the ranks meet: the first host as the others reach it. kSystem if that cannot be found out.
Result<std::string> master_address(const LaunchOptions& options, const std::string& own_name);

// This machine as the other hosts of the job reach it, as far as can be told; 127.0.0.1 if there
// are none.
Result<std::string> own_address(const LaunchOptions& options, const std::string& own_name);

}  // namespace tally::launch
