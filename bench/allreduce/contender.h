#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "bench/common/worker_group.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench {

struct ContenderFacts {
  std::string name;
  std::string transport;
  std::string version;
};

// An implementation of all-reduce of float32 in place that can be timed. Threads: one at a time,
// and only one contender of the process at a time.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual const ContenderFacts& facts() const = 0;

  // Reduces known values of this size and compares all of them with their sum.
  virtual Result<void> check(std::size_t bytes) = 0;
  // Measures for about `time`, at least three calls. One sample per timed batch of calls.
  virtual Result<Answer> measure(std::size_t bytes, Duration time) = 0;
};

// A contender in processes of its own. Every command must be answered within `command_timeout`.
std::unique_ptr<Contender> make_contender(std::unique_ptr<WorkerGroup> group,
                                          Duration command_timeout);

// Explanation below a table with the floor.
inline constexpr const char* kMemoryFloorFormula =
    "memory floor: every rank's buffer is read once and written once, 2 x ranks x bytes, by as\n"
    "many threads as ranks (no more than cores), each on its own core and its own part of two\n"
    "arrays of ranks x bytes / 2, with a[i] = b[i] = (a[i] + b[i]) / 2.";

// Not an all-reduce but the time that memory needs for one: a lower bound for every in-place
// all-reduce with this many ranks on this machine.
std::unique_ptr<Contender> make_memory_floor(int ranks);

}  // namespace tally::bench
