#pragma once
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally::group {

// One line of the text protocol that MPICH calls PMI version 1 ("wire protocol" in its PMI
// documentation): words NAME=VALUE with spaces between, the first of them the command. A line has
// at most this many bytes.
inline constexpr std::size_t kMaxPmiBytes = 2048;

// The answer that a server gave to a request.
struct PmiAnswer {
  std::string command;
  int code = 0;         // rc=, 0 if there is none: success
  std::string text;     // msg=, why not
  std::string kvsname;  // of my_kvsname
  std::string value;    // of get_result
};

// Reads a line, without its newline. kCorrupt if it is none of the protocol.
Result<PmiAnswer> parse_pmi(std::string_view line);

}  // namespace tally::group
