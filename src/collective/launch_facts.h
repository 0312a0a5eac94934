#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collective/variables.h"
#include "tally/error.h"

namespace tally::collective {

enum class Launcher : std::uint8_t {
  kNone,        // started alone
  kVariables,   // RANK and WORLD_SIZE, by hand or by a script
  kTally,       // tally run
  kTorchrun,    // torchrun, torch.distributed.run
  kKubernetes,  // an indexed Job
  kSlurm,       // srun
  kOpenMpi,     // Open MPI's mpirun
  kPmix,        // prun, or another launcher with a PMIx server
  kHydra,       // MPICH's mpirun, Intel MPI: PMI-1
};
// The launcher's name for people: "Open MPI".
std::string_view to_string(Launcher launcher);

// The facts that a launcher passes to its processes in environment variables.
struct LaunchFacts {
  Launcher launcher = Launcher::kNone;
  Rank rank = 0;
  int size = 1;  // 0: only the PMIx server knows it
  std::optional<int> local_rank;
  std::optional<int> local_size;
  // Equal on all ranks of the job, and on no other running job of this user on this host. For
  // kHydra only unique together with the process at the other end of pmi_descriptor.
  std::string job_id;
  bool has_pmix = false;    // a PMIx server answers
  int pmi_descriptor = -1;  // to a PMI-1 server; -1: none

  bool one_host() const { return size > 0 && local_size == size; }
};

// Finds the launcher. The first of these counts:
//   RANK, WORLD_SIZE       torchrun, tally run, or set by hand; JOB_COMPLETION_INDEX stands in for
//                          RANK
//   SLURM_STEP_ID          if the process is a task of that step: SLURM_NTASKS is the number of
//                          the step's tasks, and no mpirun inside the step left its own variables
//   OMPI_COMM_WORLD_RANK   Open MPI
//   PMIX_RANK              another PMIx server
//   PMI_RANK               Hydra
// kInvalid names the variable that is missing or wrong.
Result<LaunchFacts> launch_facts(const Variables& variable);

}  // namespace tally::collective
