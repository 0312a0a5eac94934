#pragma once
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally::app {

// Where --servers wants the parameter servers.
struct ServerChoice {
  enum class Kind {
    kNone,       // nothing was said
    kProcesses,  // `count` processes of their own, started with the workers
    kColocated,  // inside the first `count` workers
    kElsewhere,  // those of the directory at `address`
  };
  Kind kind = Kind::kNone;
  int count = 0;
  std::string address;  // HOST:PORT
  friend bool operator==(const ServerChoice&, const ServerChoice&) = default;
};

// "2", "2,colocated", "HOST:PORT" or "[V6]:PORT"; "": kNone. kInvalid for anything else.
Result<ServerChoice> parse_servers(std::string_view text);

}  // namespace tally::app
