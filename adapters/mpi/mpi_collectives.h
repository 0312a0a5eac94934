#pragma once
#include <mpi.h>

#include <vector>

#include "adapters/mpi/mpi_types.h"
#include "adapters/mpi/operation_plan.h"
#include "tally/communicator.h"

namespace tally::mpi {

// The MPI communicators of one MpiCommunicator, and this rank's place in them.
struct Scene {
  MPI_Comm comm = MPI_COMM_NULL;    // for collectives, and the messages of their schedules
  MPI_Comm points = MPI_COMM_NULL;  // for kSend and kReceive, so that tags of the program are free
  const MpiOps* ops = nullptr;
  Site site;
};

// Counts and displacements as MPI wants them. They stay until the call that took them completes.
struct IntParts {
  std::vector<int> counts;
  std::vector<int> starts;
};

// Starts the library's non-blocking collective for a request with is_library_call(). Fills `parts`
// if the request has counts. ReduceOp::kAverage sums; the caller divides.
Result<MPI_Request> start_library_call(const Scene& scene, const Request& request, IntParts& parts);

}  // namespace tally::mpi
