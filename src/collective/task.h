#pragma once
#include <vector>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::collective {

enum class Progress { kBlocked, kMoved, kComplete };

// One operation under way on one rank. The ProgressEngine calls advance() until it is complete, and
// sleeps in between while ready() is false.
class Task {
 public:
  virtual ~Task() = default;

  // Does as much as possible without waiting. kComplete: this rank's part is done.
  virtual Result<Progress> advance() = 0;

  // Whether advance() would make progress. Called with Router::mutex held; changes nothing.
  virtual bool ready() const = 0;

  // The ranks of the communicator whose part is missing now.
  virtual std::vector<Rank> awaited() const = 0;

  // After a failure: releases all memory of the caller.
  virtual void cancel() = 0;

  // Whether all ranks are known to have entered the operation, whatever it waits for.
  virtual bool all_entered() const { return false; }
  // The time after which advance() is called again even if ready() stays false.
  virtual Duration poll_period() const { return Duration::max(); }
};

}  // namespace tally::collective
