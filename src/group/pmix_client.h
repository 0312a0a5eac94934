#pragma once
#include <optional>
#include <string>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::group {

// The facts that a PMIx server knows about this process and its job.
struct PmixFacts {
  Rank rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;
};

// Both functions use libpmix, which the first call loads; other programs run without it. libpmix
// reads the launcher's variables itself. kInvalid if the library is missing or Tally was built
// without its headers.
//
// A server accepts a process once: after PMIx_Finalize neither Tally nor an MPI of the program
// could start again. Therefore the process stays registered until it exits, and an MPI in the same
// process shares the registration. Threads: one at a time.

Result<PmixFacts> ask_pmix();

// Passes rank 0's note to all ranks. Every rank calls it once per join; ranks other than 0 pass an
// empty text.
Result<std::string> pass_note_by_pmix(const std::string& note, Deadline by);

}  // namespace tally::group
