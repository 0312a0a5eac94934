#pragma once
#include <memory>
#include <string>
#include <thread>

#include "base/descriptor.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::group {

// Bootstrap of a job on one host: rank 0 offers a note with its address on a local socket whose
// name all ranks derive from the job's identity, and the other ranks fetch the note. Both sides
// check that the other belongs to the same user. The socket's name vanishes with its owner.

// The socket's name: this user, a hash of the whole identity, and the beginning of the identity.
std::string bootstrap_name(const std::string& job_id);

// Offers `note` from construction to destruction, on a thread of its own.
class LocalBootstrap final {
 public:
  // kRefused if the name is taken.
  static Result<std::unique_ptr<LocalBootstrap>> offer(const std::string& name, std::string note);
  ~LocalBootstrap();
  LocalBootstrap(const LocalBootstrap&) = delete;
  LocalBootstrap& operator=(const LocalBootstrap&) = delete;

 private:
  LocalBootstrap(Descriptor listener, Descriptor stop, std::string note);
  void serve();

  const Descriptor listener_;
  const Descriptor stop_;  // readable: the thread ends
  const std::string note_;
  std::jthread thread_;
};

// Waits for a note under `name`; kTimeout if none is offered by then. A process gets a note once: a
// process that joins again waits for the next LocalBootstrap of this name.
Result<std::string> fetch_note(const std::string& name, Deadline by);

}  // namespace tally::group
