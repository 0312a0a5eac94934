// `tally train` on two hosts with a cable between them, with parameter servers on the launcher's
// host and inside the workers.
#include <gmock/gmock.h>

#include "process/torch/training.h"
#include "process/two_hosts.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

class TrainTwoHosts : public OnTwoHosts {
 protected:
  // The output of two workers on each host that train an mlp under `plan`.
  std::string train(const std::string& plan, const std::vector<std::string>& run_options) {
    std::vector<std::string> command = {
        TALLY_PROGRAM,    "run",
        "--hosts",        TwoHosts::address(0) + ":2," + TwoHosts::address(1) + ":2",
        "--remote-shell", hosts().remote_shell(),
        "--lost-after",   kNever};
    command.insert(command.end(), run_options.begin(), run_options.end());
    const std::vector<std::string> training = {
        "--",     TALLY_PROGRAM, "train",  "mlp",     "--data",     table_,     "--batch",
        "10",     "--epochs",    "8",      "--width", "16",         "--layers", "1",
        "--rate", "0.2",         "--plan", plan,      "--schedule", "constant"};
    command.insert(command.end(), training.begin(), training.end());
    Child job(Child::Options{hosts().on(0, command), {{"TALLY_TIMEOUT", kNever}}});
    EXPECT_TRUE(job.exits(0, kTrainingTime)) << plan << "\n" << job.transcript();
    return job.transcript();
  }

  const TrainingFolder folder_;
  const std::string table_ = folder_.table(301);
};

TEST_F(TrainTwoHosts, EveryPolicyTrainsOnServers) {
  for (const std::string update : {"bsp", "asp", "ssp:3", "backup:1", "subset:2", "kbatch:4"})
    EXPECT_THAT(train("home=server update=" + update, {"--servers", "2"}),
                HasSubstr("completed after"))
        << update;
}

TEST_F(TrainTwoHosts, ServersMayBeInsideTheWorkers) {
  EXPECT_THAT(train("home=server update=ssp:3 stale=scale", {}), HasSubstr("completed after"));
}

TEST_F(TrainTwoHosts, TallyTrainStartsItsWorkersOnTheHosts) {
  const std::vector<std::string> command = {
      TALLY_PROGRAM,
      "train",
      "mlp",
      "--hosts",
      TwoHosts::address(0) + ":2," + TwoHosts::address(1) + ":2",
      "--lost-after",
      kNever,
      "--remote-shell",
      hosts().remote_shell(),
      "--data",
      table_,
      "--batch",
      "10",
      "--epochs",
      "2"};
  Child job(Child::Options{hosts().on(0, command), {{"TALLY_TIMEOUT", kNever}}});
  EXPECT_TRUE(job.exits(0, kTrainingTime)) << job.transcript();
  EXPECT_THAT(job.output(), HasSubstr("4 workers x batch 10"));
  EXPECT_THAT(job.output(), HasSubstr("completed after"));
}

TEST_F(TrainTwoHosts, LateGradientsAreLeftOutInTheGroup) {
  EXPECT_THAT(train("update=backup:1", {}), HasSubstr("completed after"));
}

}  // namespace
}  // namespace tally::process
