#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "tally/deadline.h"
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

// This process as a client of a PMI-1 server (Hydra), over the connection that the launcher gave
// it.
//
// A process that has used Hydra must finalize its session before it exits, or Hydra ends the job.
// After that Hydra ignores the process, even if an MPI of the same program starts later. Therefore
// a process has one session for all jobs that it joins and ends it when it exits. An MPI in the
// same process can use the same connection: Hydra answers requests in order, and the first finalize
// counts for both. Threads: one at a time, and not while MPI_Init or MPI_Finalize run.
class PmiSession final {
 public:
  // The caller keeps `descriptor`.
  explicit PmiSession(int descriptor);
  ~PmiSession();
  PmiSession(const PmiSession&) = delete;
  PmiSession& operator=(const PmiSession&) = delete;

  // Passes rank 0's note to all ranks through the server's key-value store. Every rank calls it
  // once per join; ranks other than 0 pass an empty text. kTimeout if a rank does not, kCorrupt for
  // malformed answers.
  Result<std::string> pass(Rank rank, const std::string& note, Deadline by);

 private:
  const Descriptor connection_;  // a duplicate, since an MPI may close the original
  const pid_t owner_;
  int passes_ = 0;
};

// The same with the session of this process, which the first call opens on `descriptor`.
Result<std::string> pass_note_by_pmi(int descriptor, Rank rank, const std::string& note,
                                     Deadline by);

}  // namespace tally::group
