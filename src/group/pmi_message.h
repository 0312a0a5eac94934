#pragma once
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally::group {

// The longest line of the text protocol that MPICH calls PMI version 1 ("wire protocol" in its PMI
// documentation). A line has words NAME=VALUE with spaces between; the first word is the command.
inline constexpr std::size_t kMaxPmiBytes = 2048;

// The server's answer to a request.
struct PmiAnswer {
  std::string command;
  int code = 0;         // rc=; 0, also if it is missing: success
  std::string text;     // msg=, the reason of a failure
  std::string kvsname;  // of my_kvsname
  std::string value;    // of get_result
};

// Reads a line without its newline. kCorrupt if it is not one of the protocol.
Result<PmiAnswer> parse_pmi(std::string_view line);

}  // namespace tally::group
