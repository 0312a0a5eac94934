#pragma once
#include <cstddef>

#include "tally/deadline.h"

namespace tally::mpi {

// What to do between two looks at an operation that is not complete: MPI has no way to sleep until
// it is.
enum class Pause { kSpin, kYield, kSleep };
struct Rest {
  Pause pause = Pause::kSpin;
  Duration sleep{0};  // kSleep only

  friend bool operator==(const Rest&, const Rest&) = default;
};

// The rest after `looks` vain looks that took `waited` in all: none for the first `spins` looks,
// nor before `patience` has passed where `spins` says that the rank has a processor of its own;
// without, it is yielded. Then sleeps of a thousandth of what was waited, between 50 us and 1 ms. A
// rank that sleeps, or that yielded to a stranger, moves nothing: MPI works only while it is
// called.
Rest rest_after(int looks, int spins, Duration waited, Duration patience);

// How long an operation of `bytes` may well take where nobody is late. Without `spins` ranks share
// processors: whoever is waited for may be waiting for this one's.
Duration patience_for(std::size_t bytes, int spins);

// Looks without rest for a rank that has a processor of its own, or not: `ranks` on this machine,
// `cores` usable.
int spins_for(int ranks, int cores);

// Takes the rest.
void take(const Rest& rest);

}  // namespace tally::mpi
