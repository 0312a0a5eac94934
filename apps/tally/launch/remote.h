#pragma once
#include <string>
#include <vector>

#include "apps/tally/launch/launcher.h"
#include "apps/tally/launch/messages.h"
#include "tally/error.h"

namespace tally::launch {

// Whether a name means this machine, whose name is `own_name`.
bool means_this_machine(const std::string& host, const std::string& own_name);

// Returns the command that starts the agent of a host; empty: run this program directly.
std::vector<std::string> agent_command(const LaunchOptions& options, const std::string& host,
                                       const std::string& own_name, const std::string& own_program);

// Splits a command at white space.
std::vector<std::string> words_of(const std::string& text);

// Quotes `word` for a shell.
std::string quoted(const std::string& word);

// Returns the variables ("NAME=VALUE") that ranks on other hosts get: PATH, LD_LIBRARY_PATH, and
// names that begin with TALLY_ or OMP_.
Variables variables_to_pass_on(const std::vector<std::string>& environment);

// Returns the local address of packets to `host`, a name or an address. Sends nothing. kSystem if
// there is no route.
Result<std::string> own_address_towards(const std::string& host);

// Returns the address of the first host for the others. kSystem if it cannot be determined.
Result<std::string> master_address(const LaunchOptions& options, const std::string& own_name);

// Returns the address of this machine for the other hosts of the job; 127.0.0.1 if there are none.
Result<std::string> own_address(const LaunchOptions& options, const std::string& own_name);

}  // namespace tally::launch
