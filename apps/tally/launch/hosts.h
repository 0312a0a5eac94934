#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::launch {

// A machine and how many ranks it takes.
struct Host {
  std::string name;
  int slots = 1;

  friend bool operator==(const Host&, const Host&) = default;
};

// Ranks of one job on one host: `count` of them, from `first` on.
struct HostRanks {
  std::string host;
  Rank first = 0;
  int count = 0;

  friend bool operator==(const HostRanks&, const HostRanks&) = default;
};

inline constexpr int kMaxRanks = 4096;

// "a:2,b,[::1]:4": hosts with their slots, 1 where none are given. A host that is named again gets
// more slots. kInvalid with the part that makes no sense.
Result<std::vector<Host>> parse_hosts(std::string_view text);

// The same from the text of a host file: a line "host", "host:N", or "host slots=N" each, with "#"
// before a comment; other "name=value" words ("max_slots=4") are passed over. kInvalid with the
// number of the line.
Result<std::vector<Host>> parse_host_file(std::string_view text);

// Ranks 0 to `size`-1 in the order of the hosts, each filled before the next; hosts that get none
// are left out. size 0: as many as there are slots. kInvalid if there are too few.
Result<std::vector<HostRanks>> place_ranks(const std::vector<Host>& hosts, int size);

// "user@b" is "b" to those who connect to it.
std::string address_of(const std::string& host);

}  // namespace tally::launch
