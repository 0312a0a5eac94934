#pragma once
#include <cstddef>

#include "collective/schedule.h"
#include "tally/communicator.h"

namespace tally::mpi {

// One rank of an MPI communicator. No MPI call moves more than `most` elements or starts further
// from its buffer: MPI counts in int.
struct Site {
  Rank rank = 0;
  int ranks = 1;
  std::size_t most = 0;
};

// Whether the library's own non-blocking collective carries the request out in one call. Other
// requests are Schedules over messages. Depends only on values that are the same on all ranks.
bool is_library_call(const Request& request, const Site& site);

// The messages of a request that collective::check() accepts and that is no library call. The
// schedule of a send or receive has one step and one action.
collective::Schedule schedule_of(const Request& request, const Site& site);

// A block of a schedule crosses as messages of this many elements; the last one may be shorter.
std::size_t message_elements(const Request& request, const Site& site);

}  // namespace tally::mpi
