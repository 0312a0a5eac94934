#pragma once
#include <optional>
#include <string>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::group {

// What a PMIx server says of this process and its job.
struct PmixFacts {
  Rank rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;
};

// Both use libpmix, which is loaded when first asked for: a program that does not need it runs
// without. It reads the launcher's variables by itself. kInvalid if the library is missing, or
// Tally was built without its headers.
//
// A server takes a process once: after PMIx_Finalize neither we nor an MPI of the program could
// begin again. So the process stays registered until it exits, whichever jobs it joins, and an MPI
// beside us shares the registration. Threads: one at a time.

Result<PmixFacts> ask_pmix();

// Passes rank 0's note to all ranks. Every rank calls it once per join; the others give an empty
// text.
Result<std::string> pass_note_by_pmix(const std::string& note, Deadline by);

}  // namespace tally::group
