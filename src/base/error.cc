#include "tally/error.h"

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

}  // namespace tally
