// A worker of `tally train` that dies, throws or runs out of memory ends the job and is named.
#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/torch/training.h"

namespace tally::process {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

class TrainFailure : public testing::Test {
 protected:
  const TrainingFolder folder_;
};

TEST_F(TrainFailure, AKilledWorkerEndsTheTrainingAndIsNamed) {
  Child tally = folder_.train({"mlp", "--workers", "3", "--data", folder_.table(200), "--batch",
                               "4", "--steps", "100000000", "--schedule", "constant", "--rate",
                               "1e-9", "--eval-every", "never", "--log-every", "10"});
  ASSERT_TRUE(tally.line_with("step 10/", kTrainingTime)) << tally.transcript();
  const pid_t victim = worker_of(tally.pid(), 1);
  ASSERT_GT(victim, 0);
  kill(victim, SIGKILL);
  EXPECT_TRUE(tally.exits(137)) << tally.transcript();
  EXPECT_THAT(tally.errors(), ContainsRegex("tally train: rank 1 on [^ ]+ .*SIGKILL"));
  for (const Rank rank : {0, 2}) EXPECT_EQ(worker_of(tally.pid(), rank), -1);
  EXPECT_TRUE(folder_.left_nothing_behind());
}

// A worker notices a damaged picture only when it reads it.
TEST_F(TrainFailure, AWorkerThatCannotReadItsDataEndsTheTrainingWithTheReason) {
  for (const char* kind : {"a", "b"}) {
    fs::create_directories(folder_.file("pictures/") + kind);
    for (int i = 0; i < 12; ++i)
      write_file(fmt::format("{}/{}/{}.png", folder_.file("pictures"), kind, i),
                 "\x89PNG\r\n\x1a\n and then nothing that a picture has");
  }
  Child tally = folder_.train(
      {"lenet", "--workers", "2", "--data", folder_.file("pictures"), "--batch", "2"});
  const auto status = tally.wait_status(kTrainingTime);
  ASSERT_TRUE(status.has_value()) << tally.transcript();
  EXPECT_NE(*status, 0);
  EXPECT_THAT(tally.errors(), ContainsRegex("tally train: rank [01] on .* exited with code 1\n"
                                            "  its last lines, again:\n  . rank [01]: .*png"));
}

TEST_F(TrainFailure, AWorkerOutOfMemoryEndsTheTrainingAndIsNamed) {
  const std::string command = fmt::format(
      "ulimit -d 3000000; exec {} train mlp --workers 2 --data {} --width 60000 "
      "--layers 4 --batch 2",
      TALLY_PROGRAM, folder_.table(40));
  Child tally(
      {.command = {"/bin/sh", "-c", command}, .variables = {{"TMPDIR", folder_.file("tmp")}}});
  EXPECT_TRUE(tally.exits(1, kTrainingTime)) << tally.transcript();
  EXPECT_THAT(tally.errors(), ContainsRegex("rank [01]: out of memory"));
  EXPECT_THAT(tally.errors(), ContainsRegex("tally train: rank [01] on "));
}

TEST_F(TrainFailure, ALossThatIsNoNumberEndsTheTrainingAndNamesTheRate) {
  Child tally = folder_.train(
      {"linear", "--workers", "2", "--samples", "200", "--rate", "1e30", "--steps", "50"});
  EXPECT_TRUE(tally.exits(3, kTrainingTime)) << tally.transcript();
  EXPECT_THAT(tally.errors(), HasSubstr("the training has diverged: the loss of step"));
  EXPECT_THAT(tally.errors(), HasSubstr("a rate of 1e+30 is too high"));
}

// On servers each worker sees its own loss, and none goes on alone; a restart would end the same
// way.
TEST_F(TrainFailure, ADivergedTrainingOnServersIsNotRestarted) {
  Child tally =
      folder_.train({"linear", "--workers", "2", "--samples", "200", "--rate", "1e30", "--steps",
                     "50", "--plan", "home=server update=asp", "--max-restarts", "2"});
  EXPECT_TRUE(tally.exits(3, kTrainingTime)) << tally.transcript();
  EXPECT_THAT(tally.errors(), HasSubstr("the training has diverged"));
  EXPECT_THAT(tally.errors(), Not(HasSubstr("restart 1 of 2")));
}

}  // namespace
}  // namespace tally::process
