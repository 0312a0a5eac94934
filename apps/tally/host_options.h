#pragma once
#include <string>

#include "apps/tally/command_line.h"
#include "apps/tally/launch/launcher.h"
#include "tally/error.h"

namespace tally::app {

// The hosts of a job and how they are reached, for `tally run` and `tally train`.
struct HostOptions {
  std::string hosts;      // "a:2,b:2"
  std::string host_file;  // the same from a file; both empty: this host only
  std::string remote_shell;
  std::string remote_tally;
  std::string master_address;
  std::string own_address;

  bool given() const { return !hosts.empty() || !host_file.empty(); }
};

void add_host_options(Command& command, HostOptions& options);

// Sets the places of the ranks and how their hosts are reached. `ranks` is the number on this host,
// or at most as many as the hosts have slots; 0 with hosts: all slots.
Result<void> set_hosts(const HostOptions& options, int ranks, launch::LaunchOptions& launch);

}  // namespace tally::app
