#pragma once

namespace tally {

// Prints the failed condition with its place and ends the process.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace tally

// Our own bugs, in every build. Never for anything that a peer, a file or a user can cause.
#define TALLY_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::tally::check_failed(#condition, __FILE__, __LINE__))
