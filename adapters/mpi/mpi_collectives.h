#pragma once
#include <mpi.h>

#include <vector>

#include "adapters/mpi/mpi_types.h"
#include "adapters/mpi/operation_plan.h"
#include "tally/communicator.h"

namespace tally::mpi {

// What the parts of one operation need to know of their communicator.
struct Scene {
  MPI_Comm comm = MPI_COMM_NULL;    // for collectives, and the messages that they are made of
  MPI_Comm points = MPI_COMM_NULL;  // for kSend and kReceive
  const MpiOps* ops = nullptr;
  Site site;
};

// Counts and displacements as MPI wants them; must stay until the call that took them is complete.
struct IntParts {
  std::vector<int> counts;
  std::vector<int> starts;
};

// Begins the collective that a request names, by the library's own non-blocking call. The request
// fits (fits()). `parts` is filled where there are counts.
Result<MPI_Request> begin_whole(const Scene& scene, const Request& request, IntParts& parts);

// The same for one piece of a larger one: kAllreduce, kBroadcast or kReduce.
Result<MPI_Request> begin_piece(const Scene& scene, const Request& request, const Piece& piece);

}  // namespace tally::mpi
