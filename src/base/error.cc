#include "tally/error.h"

#include <fmt/format.h>

namespace tally {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kPeerLost:
      return "kPeerLost";
    case ErrorCode::kTimeout:
      return "kTimeout";
    case ErrorCode::kCorrupt:
      return "kCorrupt";
    case ErrorCode::kMismatch:
      return "kMismatch";
    case ErrorCode::kRefused:
      return "kRefused";
    case ErrorCode::kInvalid:
      return "kInvalid";
    case ErrorCode::kStale:
      return "kStale";
    case ErrorCode::kClosed:
      return "kClosed";
    case ErrorCode::kExhausted:
      return "kExhausted";
    case ErrorCode::kSystem:
      return "kSystem";
  }
  return "unknown";
}

std::string to_string(const Error& error) {
  if (error.peer == kNoRank) return fmt::format("{}: {}", to_string(error.code), error.message);
  return fmt::format("{} (rank {}): {}", to_string(error.code), error.peer, error.message);
}

}  // namespace tally
