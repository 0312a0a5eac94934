#pragma once
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally::app {

// The place of the parameter servers, from --servers.
struct ServerChoice {
  enum class Kind {
    kNone,       // not given
    kProcesses,  // `count` processes, started with the workers
    kColocated,  // inside the first `count` workers
    kElsewhere,  // running servers with a directory at `address`
  };
  Kind kind = Kind::kNone;
  int count = 0;
  std::string address;  // HOST:PORT
  friend bool operator==(const ServerChoice&, const ServerChoice&) = default;
};

// Parses "2", "2,colocated", "HOST:PORT" or "[V6]:PORT"; "" is kNone. kInvalid for any other text.
Result<ServerChoice> parse_servers(std::string_view text);

}  // namespace tally::app
