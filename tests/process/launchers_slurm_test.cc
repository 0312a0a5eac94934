// The same program under srun, with a Slurm cluster that the suite starts.
#include <gtest/gtest.h>

#include "process/slurm_cluster.h"
#include "process/under_launcher.h"

namespace tally::process {
namespace {

class Slurm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (SlurmCluster::missing_package().empty()) cluster_ = std::make_unique<SlurmCluster>();
  }
  static void TearDownTestSuite() { cluster_.reset(); }
  void SetUp() override {
    if (!cluster_) GTEST_SKIP() << "install " << SlurmCluster::missing_package();
    ASSERT_TRUE(cluster_->ready()) << cluster_->transcript();
  }
  void TearDown() override {
    if (HasFailure() && cluster_) ADD_FAILURE() << cluster_->transcript();
  }

  std::unique_ptr<HelloJob> srun(const std::vector<std::string>& options,
                                 const std::map<std::string, std::string>& changes = {}) {
    std::vector<std::string> command{"srun"};
    command.insert(command.end(), options.begin(), options.end());
    auto variables = cluster_->variables();
    for (const auto& [name, value] : changes) variables[name] = value;
    return std::make_unique<HelloJob>(command, variables);
  }

  static std::unique_ptr<SlurmCluster> cluster_;
};

std::unique_ptr<SlurmCluster> Slurm::cluster_;

TEST_F(Slurm, RanksOfOneNodeAddUpAndTwoStepsAtOnceDoNotMix) {
  const auto first = srun({"-N1", "-n4"});
  const auto second = srun({"-N1", "-n3"});
  EXPECT_TRUE(first->adds_up(4, "Slurm"));
  EXPECT_TRUE(second->adds_up(3, "Slurm"));
}

// The nodes have no names that resolve, so the test gives the address.
TEST_F(Slurm, RanksOfTwoNodesMeetAtAPortOfTheStep) {
  EXPECT_TRUE(srun({"-N2", "-n4"}, {{"TALLY_MASTER_ADDR", "127.0.0.1"},
                                    {"TALLY_SECRET_FILE", cluster_->secret_file()}})
                  ->adds_up(4, "Slurm"));
}

TEST_F(Slurm, FirstHostThatCannotBeLookedUpIsNamed) {
  const auto lost =
      srun({"-N2", "-n2"}, {{"TALLY_JOIN_TIMEOUT", scaled_whole_seconds(seconds(1))}});
  EXPECT_TRUE(lost->child().complains("look up n1")) << lost->child().transcript();
  EXPECT_TRUE(lost->child().complains("TALLY_MASTER_ADDR")) << lost->child().transcript();
  EXPECT_TRUE(lost->child().exits(1)) << lost->child().transcript();
}

TEST_F(Slurm, PmixAndPmi2OfSlurmAreUnderstood) {
  EXPECT_TRUE(srun({"--mpi=pmix", "-N1", "-n4"}, with_foreign_library({{"TALLY_MEET", "pmix"}}))
                  ->adds_up(4, "Slurm"));
  EXPECT_TRUE(srun({"--mpi=pmi2", "-N1", "-n4"})->adds_up(4, "Slurm"));
}

}  // namespace
}  // namespace tally::process
