#pragma once
#include <sys/types.h>

#include <string>

#include "base/descriptor.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::group {

// This process as a client of a PMI-1 server (Hydra), over the connection that the launcher gave
// it.
//
// Who has spoken to Hydra must say so before it exits, or Hydra ends the job; who has said so is
// not heard any more, not even by an MPI of the program that begins later. So a process has one
// session for all jobs that it joins, and ends it when it exits. An MPI beside it uses the same
// connection undisturbed: Hydra answers whoever asks, in order, and whoever says goodbye first says
// it for both. Threads: one at a time, and not while MPI_Init or MPI_Finalize run.
class PmiSession final {
 public:
  // `descriptor` stays the caller's.
  explicit PmiSession(int descriptor);
  ~PmiSession();
  PmiSession(const PmiSession&) = delete;
  PmiSession& operator=(const PmiSession&) = delete;

  // Passes rank 0's note to all ranks by the server's store. Every rank calls it once per join; the
  // others give an empty text. kTimeout if not all do, kCorrupt for answers that are none.
  Result<std::string> pass(Rank rank, const std::string& note, Deadline by);

 private:
  const Descriptor connection_;  // of its own, for an MPI may close the other
  const pid_t owner_;
  int passes_ = 0;
};

// The same by the process's own session, which `descriptor` is for when it is first called.
Result<std::string> pass_note_by_pmi(int descriptor, Rank rank, const std::string& note,
                                     Deadline by);

}  // namespace tally::group
