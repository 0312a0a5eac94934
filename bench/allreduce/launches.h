#pragma once
#include <string>
#include <vector>

#include "bench/allreduce/worker_group.h"
#include "tally/error.h"

namespace tally::bench {

// How each contender is started on this machine. An error of the peers' functions means that they
// are not installed; it says what is missing.

// `transport` is one of shm, shm-plain, tcp, tls; `algorithm` a name that parse_algorithm() knows.
Result<Launch> launch_tally(int ranks, const std::string& transport, const std::string& algorithm);

// Our ranks with engine=mpi. `transport` is "mpi" (the first MPI that is installed), "mpi-openmpi"
// or "mpi-mpich": MPI alone; with "+shm" our shared memory, as on one host; with "+hosts" as two
// hosts with half of the ranks each: our shared memory inside them, MPI across. `mpirun` as below.
Result<Launch> launch_tally_mpi(int ranks, const std::string& transport, const std::string& mpirun);

// All the names that launch_tally_mpi() knows.
std::vector<std::string> mpi_transports();

// torch.distributed over Gloo on the loopback interface, in the interpreter `python`.
Result<Launch> launch_gloo(int ranks, const std::string& python);

// `name` is "openmpi" or "mpich". Of the launcher `mpirun` (if not empty), mpirun.NAME, mpirun and
// mpiexec the first is taken that says it is this MPI and has its compiler wrapper beside it.
Result<Launch> launch_mpi(int ranks, const std::string& name, const std::string& mpirun);

}  // namespace tally::bench
