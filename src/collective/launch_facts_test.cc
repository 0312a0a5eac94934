#include "collective/launch_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tally::collective {
namespace {

using LaunchFactsEnvironment = std::map<std::string, std::string>;

LaunchFactsEnvironment operator+(LaunchFactsEnvironment first,
                                 const LaunchFactsEnvironment& second) {
  for (const auto& [name, value] : second) first[name] = value;
  return first;
}

LaunchFactsEnvironment without(LaunchFactsEnvironment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

Result<LaunchFacts> facts_in(const LaunchFactsEnvironment& environment) {
  return launch_facts([&environment](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

// The variables that each launcher sets on the third of four ranks.
const LaunchFactsEnvironment kTorch = {{"RANK", "2"}, {"WORLD_SIZE", "4"}};
const LaunchFactsEnvironment kTorchrun =
    kTorch + LaunchFactsEnvironment{{"LOCAL_RANK", "0"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"TORCHELASTIC_RUN_ID", "none"},
                                    {"TORCHELASTIC_RESTART_COUNT", "0"},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", "29500"}};
const LaunchFactsEnvironment kSlurm = {{"SLURM_JOB_ID", "4"},
                                       {"SLURM_STEP_ID", "1"},
                                       {"SLURM_PROCID", "2"},
                                       {"SLURM_NTASKS", "4"},
                                       {"SLURM_STEP_NUM_TASKS", "4"},
                                       {"SLURM_LOCALID", "2"},
                                       {"SLURM_NODEID", "0"},
                                       {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                                       {"SLURM_STEP_NODELIST", "n[1-2]"}};
const LaunchFactsEnvironment kPmix = {{"PMIX_RANK", "2"}, {"PMIX_NAMESPACE", "2136670209"}};
const LaunchFactsEnvironment kOpenMpi =
    kPmix + LaunchFactsEnvironment{{"OMPI_COMM_WORLD_RANK", "2"},
                                   {"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                   {"OMPI_MCA_ess_base_jobid", "2136670209"}};
const LaunchFactsEnvironment kHydra = {{"PMI_RANK", "2"},
                                       {"PMI_SIZE", "4"},
                                       {"PMI_FD", "8"},
                                       {"MPI_LOCALRANKID", "2"},
                                       {"MPI_LOCALNRANKS", "4"}};
const LaunchFactsEnvironment kKubernetes = {{"JOB_COMPLETION_INDEX", "2"}, {"WORLD_SIZE", "4"}};
// mpirun inside a Slurm step that has one process on each of two hosts.
const LaunchFactsEnvironment kSlurmOfDaemons = {
    {"SLURM_JOB_ID", "4"}, {"SLURM_STEP_ID", "0"},        {"SLURM_PROCID", "1"},
    {"SLURM_NTASKS", "2"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "0"}};
const LaunchFactsEnvironment kSlurmPmi2 =
    kSlurm + LaunchFactsEnvironment{{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"PMI_FD", "13"}};
const LaunchFactsEnvironment kSlurmPmix =
    kSlurm + LaunchFactsEnvironment{{"PMIX_RANK", "2"}, {"PMIX_NAMESPACE", "slurm.pmix.4.1"}};
// The shell of an allocation of four tasks.
const LaunchFactsEnvironment kSlurmShell =
    kSlurm + LaunchFactsEnvironment{{"SLURM_STEP_NUM_TASKS", "1"},
                                    {"SLURM_STEP_ID", "4294967290"},
                                    {"SLURM_PROCID", "0"}};
const LaunchFactsEnvironment kSlurmBatch =
    without(without(kSlurmShell, "SLURM_STEP_ID"), "SLURM_STEP_NUM_TASKS");

struct Case {
  const char* what;
  LaunchFactsEnvironment environment;
  LaunchFacts expected;  // without job_id
};

TEST(LaunchFacts, EveryLauncherIsFoundAndInOrder) {
  const LaunchFacts alone;
  const LaunchFacts torch{.launcher = Launcher::kVariables, .rank = 2, .size = 4};
  const LaunchFacts torchrun{
      .launcher = Launcher::kTorchrun, .rank = 2, .size = 4, .local_rank = 0, .local_size = 2};
  const LaunchFacts slurm{
      .launcher = Launcher::kSlurm, .rank = 2, .size = 4, .local_rank = 2, .local_size = 3};
  LaunchFacts slurm_pmix = slurm;
  slurm_pmix.has_pmix = true;
  LaunchFacts open_mpi{
      .launcher = Launcher::kOpenMpi, .rank = 2, .size = 4, .local_rank = 2, .local_size = 4};
  open_mpi.has_pmix = true;
  LaunchFacts pmix{.launcher = Launcher::kPmix, .rank = 2, .size = 0};
  pmix.has_pmix = true;
  LaunchFacts hydra{
      .launcher = Launcher::kHydra, .rank = 2, .size = 4, .local_rank = 2, .local_size = 4};
  hydra.pmi_descriptor = 8;
  const LaunchFacts kubernetes{.launcher = Launcher::kKubernetes, .rank = 2, .size = 4};
  LaunchFacts tally = torch;
  tally.launcher = Launcher::kTally;

  const std::vector<Case> cases = {
      {"nothing", {}, alone},
      {"an indexed Job of its own", {{"JOB_COMPLETION_INDEX", "3"}}, alone},
      {"variables", kTorch, torch},
      {"tally run", kTorch + LaunchFactsEnvironment{{"TALLY_JOB", "x"}}, tally},
      {"torchrun", kTorchrun, torchrun},
      {"Kubernetes", kKubernetes, kubernetes},
      {"RANK before the index", kKubernetes + kTorch, torch},
      {"Slurm", kSlurm, slurm},
      {"Slurm without step count", without(kSlurm, "SLURM_STEP_NUM_TASKS"), slurm},
      {"Slurm with pmi2", kSlurmPmi2, slurm},
      {"Slurm with pmix", kSlurmPmix, slurm_pmix},
      {"shell in an allocation", kSlurmShell, alone},
      {"batch script", kSlurmBatch, alone},
      {"Open MPI", kOpenMpi, open_mpi},
      {"PMIx", kPmix, pmix},
      {"Hydra", kHydra, hydra},
      {"torchrun in Slurm", kSlurm + kTorchrun, torchrun},
      {"torchrun under mpirun", kOpenMpi + kTorchrun, torchrun},
      {"Open MPI in a Slurm step", kSlurmOfDaemons + kOpenMpi, open_mpi},
      {"Open MPI in a batch script", kSlurmBatch + kOpenMpi, open_mpi},
      {"Hydra in a Slurm step", kSlurmOfDaemons + kHydra, hydra},
      {"prun in a Slurm step", kSlurmOfDaemons + kPmix, pmix},
      {"Open MPI before Hydra", kOpenMpi + kHydra, open_mpi},
      {"PMIx before Hydra", kPmix + kHydra, pmix},
  };
  for (const Case& each : cases) {
    const auto facts = facts_in(each.environment);
    ASSERT_TRUE(facts.has_value()) << each.what << ": " << facts.error().message;
    EXPECT_EQ(to_string(facts->launcher), to_string(each.expected.launcher)) << each.what;
    EXPECT_EQ(facts->rank, each.expected.rank) << each.what;
    EXPECT_EQ(facts->size, each.expected.size) << each.what;
    EXPECT_EQ(facts->local_rank, each.expected.local_rank) << each.what;
    EXPECT_EQ(facts->local_size, each.expected.local_size) << each.what;
    EXPECT_EQ(facts->has_pmix, each.expected.has_pmix) << each.what;
    EXPECT_EQ(facts->pmi_descriptor, each.expected.pmi_descriptor) << each.what;
  }
}

TEST(LaunchFacts, OneHostIsWhereAllRanksAreLocal) {
  EXPECT_TRUE(facts_in(kOpenMpi)->one_host());
  EXPECT_TRUE(facts_in(kHydra)->one_host());
  EXPECT_FALSE(facts_in(kTorchrun)->one_host());
  EXPECT_FALSE(facts_in(kSlurm)->one_host());
  EXPECT_FALSE(facts_in(kPmix)->one_host());
  EXPECT_FALSE(facts_in(kTorch)->one_host());
}

TEST(LaunchFacts, JobsAreToldApart) {
  EXPECT_EQ(facts_in(kSlurm)->job_id,
            facts_in(kSlurm + LaunchFactsEnvironment{{"SLURM_PROCID", "0"}})->job_id);
  const std::vector<std::pair<LaunchFactsEnvironment, LaunchFactsEnvironment>> others = {
      {kSlurm, {{"SLURM_STEP_ID", "2"}}},
      {kSlurm, {{"SLURM_JOB_ID", "5"}}},
      {kOpenMpi, {{"PMIX_NAMESPACE", "1"}}},
      {kOpenMpi, {{"OMPI_MCA_orte_precondition_transports", "9bfa-a6b7"}}},
      {kPmix, {{"PMIX_NAMESPACE", "1"}}},
      {kTorchrun, {{"TORCHELASTIC_RUN_ID", "x"}}},
      {kTorchrun, {{"MASTER_PORT", "29501"}}},
      {kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}}}};
  for (const auto& [job, change] : others)
    EXPECT_NE(facts_in(job)->job_id, facts_in(job + change)->job_id) << change.begin()->first;
}

TEST(LaunchFacts, HalfASetNamesWhatIsMissing) {
  const std::vector<std::pair<LaunchFactsEnvironment, std::string>> cases = {
      {{{"RANK", "0"}}, "WORLD_SIZE is not set"},
      {{{"WORLD_SIZE", "2"}}, "RANK is not set"},
      {without(kSlurm, "SLURM_PROCID"), "SLURM_PROCID is not set"},
      {without(without(kSlurm, "SLURM_NTASKS"), "SLURM_STEP_NUM_TASKS"), "SLURM_NTASKS is not set"},
      {without(kSlurm, "SLURM_JOB_ID"), "SLURM_JOB_ID is not"},
      {without(kOpenMpi, "OMPI_COMM_WORLD_RANK"), "OMPI_COMM_WORLD_RANK is not set"},
      {without(kOpenMpi, "OMPI_COMM_WORLD_SIZE"), "OMPI_COMM_WORLD_SIZE is not set"},
      {without(kPmix, "PMIX_NAMESPACE"), "PMIX_NAMESPACE is not set"},
      {without(kHydra, "PMI_RANK"), "PMI_RANK is not set"},
      {without(kHydra, "PMI_SIZE"), "PMI_SIZE is not set"},
      {without(kHydra, "PMI_FD"), "PMI_FD is not set"}};
  for (const auto& [environment, text] : cases) {
    const auto facts = facts_in(environment);
    ASSERT_FALSE(facts.has_value()) << text;
    EXPECT_EQ(facts.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(facts.error().message, testing::HasSubstr(text));
  }
}

TEST(LaunchFacts, BadNumbersNameTheirVariable) {
  const std::vector<std::pair<LaunchFactsEnvironment, LaunchFactsEnvironment>> cases = {
      {kTorch, {{"RANK", "4"}}},
      {kTorch, {{"RANK", "-1"}}},
      {kTorch, {{"RANK", ""}}},
      {kTorch, {{"WORLD_SIZE", "0"}}},
      {kTorch, {{"WORLD_SIZE", "4x"}}},
      {kTorch, {{"WORLD_SIZE", "99999999999"}}},
      {kTorchrun, {{"LOCAL_RANK", "first"}}},
      {kTorchrun, {{"LOCAL_WORLD_SIZE", "0"}}},
      {kKubernetes, {{"JOB_COMPLETION_INDEX", "4"}}},
      {kSlurm, {{"SLURM_PROCID", "9"}}},
      {kSlurm, {{"SLURM_LOCALID", "x"}}},
      {kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "many"}}},
      {kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "4"}}},
      {kPmix, {{"PMIX_RANK", "x"}}},
      {kHydra, {{"PMI_FD", "-3"}}},
      {kHydra, {{"MPI_LOCALNRANKS", "none"}}}};
  for (const auto& [good, change] : cases) {
    const auto facts = facts_in(good + change);
    const auto& [name, value] = *change.begin();
    ASSERT_FALSE(facts.has_value()) << name << "=" << value;
    EXPECT_EQ(facts.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(facts.error().message, testing::HasSubstr(name));
  }
}

}  // namespace
}  // namespace tally::collective
