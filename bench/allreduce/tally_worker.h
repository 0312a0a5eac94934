#pragma once
#include <string>

#include "tally/communicator.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::bench {

struct TallyWorkerOptions {
  std::string folder;          // holds the pipes "in.RANK" and "out"
  bool shared_buffers = true;  // Communicator::allocate, or else ordinary memory
  Algorithm algorithm = Algorithm::kAuto;
};

// One rank of tally's contender: joins the job and answers the commands of its pipe (see
// mpi_worker.c) until it is closed.
Result<void> run_tally_worker(const JobOptions& job, const TallyWorkerOptions& options);

}  // namespace tally::bench
