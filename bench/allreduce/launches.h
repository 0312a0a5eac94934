#pragma once
#include <string>
#include <vector>

#include "bench/common/worker_group.h"
#include "tally/communicator.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::bench {

// The text of mpi_worker.c and gloo_worker.py, so that the program needs no files beside it.
extern const char* const kMpiWorkerSource;
extern const char* const kGlooWorkerSource;

// Starts each contender on this machine. An error of a peer's function means that the peer is not
// installed, and names what is missing.

// `transport` is one of shm, shm-plain, tcp, tls; `algorithm` a name that parse_algorithm() knows.
Result<Launch> launch_tally(int ranks, const std::string& transport, const std::string& algorithm);

// Ranks of tally with engine=mpi. `transport` is "mpi" (the first MPI that is installed),
// "mpi-openmpi" or "mpi-mpich": MPI alone; with "+shm" tally's shared memory, as on one host; with
// "+hosts" as two hosts with half of the ranks each: shared memory inside, MPI across. `mpirun` as
// below.
Result<Launch> launch_tally_mpi(int ranks, const std::string& transport, const std::string& mpirun);

// Returns all names that launch_tally_mpi() knows.
std::vector<std::string> mpi_transports();

// torch.distributed over Gloo on the loopback interface, in the interpreter `python`.
Result<Launch> launch_gloo(int ranks, const std::string& python);

// `name` is "openmpi" or "mpich". Takes the first of `mpirun` (if not empty), mpirun.NAME, mpirun
// and mpiexec that belongs to this MPI and has its compiler wrapper beside it.
Result<Launch> launch_mpi(int ranks, const std::string& name, const std::string& mpirun);

struct TallyWorkerOptions {
  std::string folder;          // holds the pipes "in.RANK" and "out"
  bool shared_buffers = true;  // Communicator::allocate, or else ordinary memory
  Algorithm algorithm = Algorithm::kAuto;
};

// One rank of tally's contender: joins the job and answers the commands of its pipe (see
// mpi_worker.c) until it is closed.
Result<void> run_tally_worker(const JobOptions& job, const TallyWorkerOptions& options);

}  // namespace tally::bench
