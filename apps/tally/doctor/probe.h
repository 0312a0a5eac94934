#pragma once
#include <cstdint>
#include <string>

#include "net/socket.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::app::doctor {

// Listens on all addresses of this host until `by`, prints "listening PORT" on stdout, and tells
// every caller its time of day. Nothing that a caller sends is read.
Result<void> serve_probe(Deadline by);

// What a call to such a listener found out.
struct ProbeAnswer {
  double round_trip_ms = 0;
  double clock_ahead_ms = 0;  // its clock against ours, in the middle of the call
};

Result<ProbeAnswer> call_probe(const net::Address& address, Deadline by);

// "RTT AHEAD" as `doctor-probe call` prints it, and back.
std::string to_string(const ProbeAnswer& answer);
Result<ProbeAnswer> parse_probe_answer(const std::string& text);

}  // namespace tally::app::doctor
