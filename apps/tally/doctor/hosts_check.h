#pragma once
#include <string>
#include <vector>

#include "apps/tally/doctor/findings.h"

namespace tally::app::doctor {

struct HostsCheckOptions {
  std::vector<std::string> hosts;
  // Called as WORDS... HOST COMMAND...
  std::vector<std::string> remote_shell = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"};
  std::string remote_tally;  // path of this program on the host
};

// Lets every host listen for a while and has all others, this one included, connect to it, as a job
// would. Takes some seconds and leaves nothing running.
std::vector<PeerFacts> check_hosts(const HostsCheckOptions& options);

}  // namespace tally::app::doctor
