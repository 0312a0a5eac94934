#pragma once
#include <memory>
#include <string>
#include <thread>

#include "base/descriptor.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::group {

// A note pinned up for the other processes of a job on one host. Rank 0 offers it under a name that
// all derive from the job's identity; the others fetch it. Both sides make sure that the other
// belongs to the same user. Nothing is left behind: the name goes with its owner.

// The name of a job's board: of this user, from the identity whole, however long it is.
std::string board_name(const std::string& job_id);

// Offers `note` from construction to destruction, by a thread of its own.
class LocalBoard final {
 public:
  // kRefused if somebody has a board of this name.
  static Result<std::unique_ptr<LocalBoard>> offer(const std::string& name, std::string note);
  ~LocalBoard();
  LocalBoard(const LocalBoard&) = delete;
  LocalBoard& operator=(const LocalBoard&) = delete;

 private:
  LocalBoard(Descriptor listener, Descriptor stop, std::string note);
  void serve();

  const Descriptor listener_;
  const Descriptor stop_;  // readable: time to end
  const std::string note_;
  std::jthread thread_;
};

// The note that is offered under `name`, as soon as one is; kTimeout if none is by then. A process
// gets a note once: one that joins again waits for the next board of this name.
Result<std::string> fetch_note(const std::string& name, Deadline by);

}  // namespace tally::group
