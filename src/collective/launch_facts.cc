#include "collective/launch_facts.h"

#include <fmt/format.h>

#include <limits>

#include "base/errors.h"
#include "base/names.h"
#include "collective/slurm_lists.h"

namespace tally::collective {
namespace {

constexpr int kMany = 1 << 20;

// The names of one launcher's variables, by meaning.
struct Names {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

bool has(const Variables& variable, const char* name) { return variable(name) != nullptr; }

Result<std::optional<int>> optional_number(const Variables& variable, const char* name,
                                           int lowest) {
  if (!has(variable, name)) return std::optional<int>();
  TALLY_TRY(const int value, number(variable, name, lowest, kMany, lowest));
  return std::optional<int>(value);
}

// Rank and size must both be set.
Result<LaunchFacts> read(Launcher launcher, const Variables& variable, const Names& names) {
  for (const char* name : {names.rank, names.size}) {
    if (has(variable, name)) continue;
    return invalid("{} and {} go together: {} is not set ({})", names.rank, names.size, name,
                   to_string(launcher));
  }
  LaunchFacts facts{.launcher = launcher};
  TALLY_TRY(facts.size, number(variable, names.size, 1, kMany, 1));
  TALLY_TRY(facts.rank, number(variable, names.rank, 0, facts.size - 1, 0));
  TALLY_TRY(facts.local_rank, optional_number(variable, names.local_rank, 0));
  TALLY_TRY(facts.local_size, optional_number(variable, names.local_size, 1));
  return facts;
}

Result<LaunchFacts> from_torch(const Variables& variable) {
  Launcher launcher = Launcher::kVariables;
  const char* rank = "RANK";
  if (has(variable, "TORCHELASTIC_RUN_ID")) launcher = Launcher::kTorchrun;
  if (has(variable, "TALLY_JOB") || has(variable, "TALLY_COORDINATOR")) launcher = Launcher::kTally;
  if (!has(variable, "RANK") && has(variable, "JOB_COMPLETION_INDEX")) {
    launcher = Launcher::kKubernetes;
    rank = "JOB_COMPLETION_INDEX";
  }
  TALLY_TRY(LaunchFacts facts,
            read(launcher, variable, {rank, "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}));
  // A restarted job of torchrun is a new job: leftover ranks of the old one must not join it.
  if (launcher == Launcher::kTorchrun) {
    facts.job_id = fmt::format("torchrun {} {}:{} {}", text_of(variable, "TORCHELASTIC_RUN_ID"),
                               text_of(variable, "MASTER_ADDR"), text_of(variable, "MASTER_PORT"),
                               text_of(variable, "TORCHELASTIC_RESTART_COUNT"));
  }
  return facts;
}

// Slurm's own PMIx plugin has namespaces of this name; another one belongs to a launcher inside the
// step.
bool other_pmix(const Variables& variable) {
  return has(variable, "PMIX_RANK") &&
         text_of(variable, "PMIX_NAMESPACE").rfind("slurm.pmix.", 0) != 0;
}

// Slurm sets PMI_RANK itself for programs of MPICH, with the numbers of the step; Hydra has others,
// or has MPI_LOCALRANKID beside it.
bool other_pmi(const Variables& variable) {
  return has(variable, "PMI_RANK") &&
         (has(variable, "MPI_LOCALRANKID") ||
          text_of(variable, "PMI_RANK") != text_of(variable, "SLURM_PROCID"));
}

bool is_slurm_task(const Variables& variable) {
  if (!has(variable, "SLURM_STEP_ID")) return false;
  if (has(variable, "OMPI_COMM_WORLD_RANK") || other_pmix(variable) || other_pmi(variable))
    return false;
  // An interactive shell is a step of one task in an allocation of many: its programs are single
  // ranks.
  return !has(variable, "SLURM_NTASKS") || !has(variable, "SLURM_STEP_NUM_TASKS") ||
         text_of(variable, "SLURM_NTASKS") == text_of(variable, "SLURM_STEP_NUM_TASKS");
}

Result<LaunchFacts> from_slurm(const Variables& variable) {
  const char* const size =
      has(variable, "SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  TALLY_TRY(LaunchFacts facts,
            read(Launcher::kSlurm, variable, {"SLURM_PROCID", size, "SLURM_LOCALID", ""}));
  if (const char* const tasks = variable("SLURM_STEP_TASKS_PER_NODE")) {
    TALLY_TRY(const int node, number(variable, "SLURM_NODEID", 0, kMany, 0));
    auto local_size = tasks_on_node(tasks, node);
    if (!local_size.has_value())
      return invalid("SLURM_STEP_TASKS_PER_NODE: " + local_size.error().message);
    facts.local_size = *local_size;
  }
  const char* const job = variable("SLURM_JOB_ID");
  if (job == nullptr) return invalid("SLURM_STEP_ID is set, and SLURM_JOB_ID is not");
  facts.job_id = fmt::format("slurm {}.{}", job, text_of(variable, "SLURM_STEP_ID"));
  facts.has_pmix = has(variable, "PMIX_RANK");
  return facts;
}

// The namespace names the job; the other two make it unique where a number is used again.
std::string pmix_job(const Variables& variable) {
  return fmt::format("pmix {} {} {}", text_of(variable, "PMIX_NAMESPACE"),
                     text_of(variable, "OMPI_MCA_ess_base_jobid"),
                     text_of(variable, "OMPI_MCA_orte_precondition_transports"));
}

Result<LaunchFacts> from_open_mpi(const Variables& variable) {
  TALLY_TRY(LaunchFacts facts, read(Launcher::kOpenMpi, variable,
                                    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}));
  facts.job_id = pmix_job(variable);
  facts.has_pmix = has(variable, "PMIX_RANK");
  return facts;
}

Result<LaunchFacts> from_pmix(const Variables& variable) {
  if (!has(variable, "PMIX_NAMESPACE"))
    return invalid("PMIX_RANK and PMIX_NAMESPACE go together: PMIX_NAMESPACE is not set (PMIx)");
  LaunchFacts facts{.launcher = Launcher::kPmix, .size = 0};
  TALLY_TRY(facts.rank, number(variable, "PMIX_RANK", 0, kMany, 0));
  facts.job_id = pmix_job(variable);
  facts.has_pmix = true;
  return facts;
}

Result<LaunchFacts> from_hydra(const Variables& variable) {
  TALLY_TRY(LaunchFacts facts,
            read(Launcher::kHydra, variable,
                 {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}));
  if (facts.size > 1 && !has(variable, "PMI_FD"))
    return invalid("PMI_RANK and PMI_FD go together: PMI_FD is not set (Hydra)");
  TALLY_TRY(facts.pmi_descriptor,
            number(variable, "PMI_FD", 0, std::numeric_limits<int>::max(), -1));
  facts.job_id = "hydra";
  return facts;
}

}  // namespace

std::string_view to_string(Launcher launcher) {
  return name_in<Launcher::kHydra>({"none", "variables", "tally run", "torchrun", "Kubernetes",
                                    "Slurm", "Open MPI", "PMIx", "Hydra"},
                                   launcher);
}

Result<LaunchFacts> launch_facts(const Variables& variable) {
  if (has(variable, "RANK") || has(variable, "WORLD_SIZE")) return from_torch(variable);
  if (is_slurm_task(variable)) return from_slurm(variable);
  if (has(variable, "OMPI_COMM_WORLD_RANK") || has(variable, "OMPI_COMM_WORLD_SIZE"))
    return from_open_mpi(variable);
  if (has(variable, "PMIX_RANK")) return from_pmix(variable);
  if (has(variable, "PMI_RANK") || has(variable, "PMI_SIZE")) return from_hydra(variable);
  LaunchFacts alone;
  TALLY_TRY(alone.local_rank, optional_number(variable, "LOCAL_RANK", 0));
  return alone;
}

}  // namespace tally::collective
