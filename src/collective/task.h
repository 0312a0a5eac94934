#pragma once
#include <vector>

#include "tally/error.h"

namespace tally::collective {

enum class Progress { kBlocked, kMoved, kComplete };

// One operation under way on one rank. The communicator drives it: advance() until complete,
// sleeping in between while ready() is false.
class Task {
 public:
  virtual ~Task() = default;

  // Does all that can be done without waiting. kComplete: this rank's part is done.
  virtual Result<Progress> advance() = 0;

  // Whether advance() would get further. Called with the mailroom's mutex held; changes nothing.
  virtual bool ready() const = 0;

  // The ranks of the communicator whose part is missing now.
  virtual std::vector<Rank> awaited() const = 0;

  // After a failure: lets go of all memory of the caller.
  virtual void cancel() = 0;
};

}  // namespace tally::collective
