#pragma once
#include "tally/deadline.h"

namespace tally::mpi {

// What to do between two looks at an operation that is not complete: MPI has no way to sleep until it is.
enum class Pause { kSpin, kYield, kSleep };
struct Rest {
  Pause pause = Pause::kSpin;
  Duration sleep{0};  // kSleep only

  friend bool operator==(const Rest&, const Rest&) = default;
};

// The rest after `looks` vain looks that took `waited` in all: `spins` looks without any, then yielding the
// processor for as long as a message takes, then sleeps of a sixteenth of what was waited, between 20 us
// and 1 ms, so that sleeping late costs at most about a sixteenth.
Rest rest_after(int looks, int spins, Duration waited);

// Looks without rest for a rank that has a processor of its own, or not: `ranks` on this machine, `cores` usable.
int spins_for(int ranks, int cores);

// Takes the rest.
void take(const Rest& rest);

}  // namespace tally::mpi
