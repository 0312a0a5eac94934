#include "tally/error.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "base/names.h"

namespace tally {

std::string_view to_string(ErrorCode code) {
  return name_in<ErrorCode::kSystem>({"kPeerLost", "kTimeout", "kCorrupt", "kMismatch", "kRefused",
                                      "kInvalid", "kStale", "kClosed", "kExhausted", "kSystem"},
                                     code);
}

std::string to_string(const Error& error) {
  if (error.peer == kNoRank) return fmt::format("{}: {}", to_string(error.code), error.message);
  return fmt::format("{} (rank {}): {}", to_string(error.code), error.peer, error.message);
}

void taken_value_of(const Error& error) {
  std::fprintf(stderr, "tally: value() of a Result that is an error: %s\n",
               to_string(error).c_str());
  std::abort();
}

void taken_error_of_value() {
  std::fprintf(stderr, "tally: error() of a Result that is a value\n");
  std::abort();
}

}  // namespace tally
