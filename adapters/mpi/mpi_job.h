#pragma once
#include <memory>

#include "tally/job.h"

namespace tally::mpi {

// Job::join for Engine::kMpi. One host: the world is our own communicator over shared memory,
// unless JobOptions::mpi_inside says otherwise; its ranks find each other by a port and a secret
// told over MPI. Several hosts: a TieredCommunicator. Else an MpiCommunicator. kInvalid if RANK or
// WORLD_SIZE contradict MPI.
Result<std::unique_ptr<Job>> join(const JobOptions& options);

}  // namespace tally::mpi
