#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "apps/tally/doctor/findings.h"
#include "net/socket.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::app::doctor {

// Listens on all addresses of this host until `by`, prints "listening PORT" on stdout, and sends
// every caller its time of day. It reads nothing from callers.
Result<void> serve_probe(Deadline by);

// Result of a call to such a listener.
struct ProbeAnswer {
  double round_trip_ms = 0;
  double clock_ahead_ms = 0;  // the listener's clock against this host's, in the middle of the call
};

Result<ProbeAnswer> call_probe(const net::Address& address, Deadline by);

// Writes and parses "RTT AHEAD", the output of `doctor-probe call`.
std::string to_string(const ProbeAnswer& answer);
Result<ProbeAnswer> parse_probe_answer(const std::string& text);

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
