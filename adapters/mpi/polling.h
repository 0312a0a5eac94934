#pragma once
#include <cstddef>

#include "tally/deadline.h"

namespace tally::mpi {

// The pause between two polls of an operation: MPI has no call that sleeps until it completes.
enum class Pause { kSpin, kYield, kSleep };
struct Rest {
  Pause pause = Pause::kSpin;
  Duration sleep{0};  // kSleep only

  friend bool operator==(const Rest&, const Rest&) = default;
};

// The rest after `looks` fruitless polls that took `waited` in all. A rank with its own processor
// (`spins` > 0) spins for the first `spins` polls and until `patience` has passed; a rank without
// yields its processor until then. Later rests are sleeps of a thousandth of `waited`, between
// 50 us and 1 ms. Sleep comes late because MPI moves data only while it is called.
Rest rest_after(int looks, int spins, Duration waited, Duration patience);

// The time that an operation of `bytes` may take if no rank is late. It is short where ranks share
// processors (`spins` is 0): the awaited rank may need the processor of this one.
Duration patience_for(std::size_t bytes, int spins);

// Polls without a pause for one of `ranks` ranks on this machine with `cores` usable cores; 0 if
// they share cores.
int spins_for(int ranks, int cores);

// Carries the rest out.
void take(const Rest& rest);

}  // namespace tally::mpi
