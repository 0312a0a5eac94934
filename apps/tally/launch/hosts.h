#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::launch {

// A machine and its number of slots for ranks.
struct Host {
  std::string name;
  int slots = 1;

  friend bool operator==(const Host&, const Host&) = default;
};

// The ranks of one job on one host: `count` ranks, beginning with `first`.
struct HostRanks {
  std::string host;
  Rank first = 0;
  int count = 0;

  friend bool operator==(const HostRanks&, const HostRanks&) = default;
};

inline constexpr int kMaxRanks = 4096;

// Parses "a:2,b,[::1]:4": hosts with their slots, by default 1. A host that is named twice gets the
// sum. kInvalid with the part that is wrong.
Result<std::vector<Host>> parse_hosts(std::string_view text);

// The same from the text of a host file: lines "host", "host:N" or "host slots=N"; "#" begins a
// comment; other "name=value" words ("max_slots=4") are ignored. kInvalid with the number of the
// line.
Result<std::vector<Host>> parse_host_file(std::string_view text);

// Places ranks 0 to `size`-1 on the hosts in order, each filled before the next; hosts without
// ranks are left out. Size 0: as many ranks as slots. kInvalid if there are too few slots.
Result<std::vector<HostRanks>> place_ranks(const std::vector<Host>& hosts, int size);

// Returns the address of a host: "user@b" is "b".
std::string address_of(const std::string& host);

}  // namespace tally::launch
