// A training that was stopped and resumed ends with the same bits as one that was not.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/torch/training.h"

namespace tally::process {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class TrainResume : public testing::Test {
 protected:
  // Dropout, a schedule and an optimizer with state: all of them are part of a checkpoint.
  Child start(const std::string& saved, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"gpt",
                                      "--data",
                                      folder_.text(),
                                      "--batch",
                                      "4",
                                      "--layers",
                                      "1",
                                      "--width",
                                      "16",
                                      "--context",
                                      "16",
                                      "--dropout",
                                      "0.2",
                                      "--steps",
                                      "20",
                                      "--keep",
                                      "9",
                                      "--schedule",
                                      "cosine:warmup=3",
                                      "--eval-every",
                                      "7",
                                      "--sample-length",
                                      "0",
                                      "--checkpoint",
                                      folder_.file(saved)};
    words.insert(words.end(), more.begin(), more.end());
    return folder_.train(words);
  }

  std::string step(const std::string& saved, int number) const {
    return fmt::format("{}/step-{:010}", folder_.file(saved), number);
  }

  static bool appears(const std::string& path) {
    const std::int64_t end = now_ms() + kTrainingTime.count();
    while (!fs::exists(path) && now_ms() < end) std::this_thread::sleep_for(milliseconds(10));
    return fs::exists(path);
  }

  const TrainingFolder folder_;
};

TEST_F(TrainResume, TenAndTenStepsAreTwenty) {
  Child whole = start("whole", {"--workers", "2", "--checkpoint-every", "10"});
  ASSERT_TRUE(whole.exits(0, kTrainingTime)) << whole.transcript();
  fs::create_directory(folder_.file("half"));
  fs::copy(step("whole", 10), step("half", 10), fs::copy_options::recursive);
  Child rest = start("half", {"--workers", "2", "--checkpoint-every", "10", "--resume"});
  ASSERT_TRUE(rest.exits(0, kTrainingTime)) << rest.transcript();
  EXPECT_THAT(rest.output(), HasSubstr("resumed from step 10, written by 2 workers"));
  for (const char* file : {"model.safetensors", "optimizer-00000-of-00002.safetensors",
                           "optimizer-00001-of-00002.safetensors", "state.json"}) {
    const std::string expected = contents_of(step("whole", 20) + "/" + file);
    EXPECT_FALSE(expected.empty()) << file;
    EXPECT_TRUE(contents_of(step("half", 20) + "/" + file) == expected) << file;
  }
}

// The learning rate is so small that the first evaluation stays the best one.
TEST_F(TrainResume, BestSavesOnlyAfterALowerTestLoss) {
  Child tally = start("saved", {"--workers", "2", "--checkpoint-every", "best", "--rate", "1e-30",
                                "--schedule", "constant"});
  ASSERT_TRUE(tally.exits(0, kTrainingTime)) << tally.transcript();
  EXPECT_TRUE(fs::exists(step("saved", 7)));
  EXPECT_FALSE(fs::exists(step("saved", 14)));
  EXPECT_FALSE(fs::exists(step("saved", 20)));
  EXPECT_THAT(tally.output(), HasSubstr("step 7 is saved in " + folder_.file("saved") + "\n"));
}

TEST_F(TrainResume, AnotherNumberOfWorkersGoesOn) {
  Child two = start("saved", {"--workers", "2", "--checkpoint-every", "8"});
  ASSERT_TRUE(two.exits(0, kTrainingTime)) << two.transcript();
  Child three = start("saved", {"--workers", "3", "--checkpoint-every", "8", "--resume=8"});
  ASSERT_TRUE(three.exits(0, kTrainingTime)) << three.transcript();
  EXPECT_THAT(three.output(), HasSubstr("resumed from step 8, written by 2 workers"));
  EXPECT_TRUE(fs::exists(step("saved", 20) + "/optimizer-00002-of-00003.safetensors"));
}

// A loop may repeat one command until it succeeds: the first run begins, the second goes on where
// the first one ended, and a complete training is a success.
TEST_F(TrainResume, AutoBeginsThenGoesOnAndThenIsComplete) {
  const auto run = [this](const std::string& steps) {
    Child tally = start("saved", {"--workers", "2", "--resume=auto", "--steps", steps});
    EXPECT_TRUE(tally.exits(0, kTrainingTime)) << tally.transcript();
    return tally.output();
  };
  EXPECT_THAT(run("10"), Not(HasSubstr("resumed")));
  EXPECT_THAT(run("20"), HasSubstr("resumed from step 10, written by 2 workers"));
  EXPECT_EQ(run("20"),
            "already complete: step 20 of 20; "
            "give more --epochs or --steps to train further\n");
}

// Both runs would go on for ever: the test compares a step that both have reached.
TEST_F(TrainResume, ARestartGoesOnFromTheNewestCheckpointWithTheSameBits) {
  const std::vector<std::string> endless = {
      "--workers", "2",       "--checkpoint-every", "50",    "--keep",     "1000000",
      "--steps",   "1000000", "--eval-every",       "never", "--schedule", "constant"};
  const auto with = [&endless](std::vector<std::string> more) {
    more.insert(more.begin(), endless.begin(), endless.end());
    return more;
  };
  // An earlier run got further; the restart must not go on from there.
  fs::create_directories(step("restarted", 900000));
  Child restarted = start("restarted", with({"--max-restarts", "1"}));
  ASSERT_TRUE(appears(step("restarted", 50))) << restarted.transcript();
  kill(worker_of(restarted.pid(), 1), SIGKILL);
  const auto line = restarted.line("resumed from step ", kTrainingTime);
  ASSERT_TRUE(line.has_value()) << restarted.transcript();
  const int later = std::stoi(line->substr(line->find_first_of("0123456789"))) + 50;
  ASSERT_TRUE(appears(step("restarted", later))) << restarted.transcript();
  restarted.signal(SIGINT);
  EXPECT_TRUE(restarted.exits(130, kTrainingTime)) << restarted.transcript();
  EXPECT_THAT(restarted.errors(), HasSubstr("restart 1 of 1"));
  Child whole = start("whole", endless);
  ASSERT_TRUE(appears(step("whole", later))) << whole.transcript();
  whole.signal(SIGINT);
  EXPECT_TRUE(whole.exits(130, kTrainingTime)) << whole.transcript();
  const std::string expected = contents_of(step("whole", later) + "/model.safetensors");
  EXPECT_FALSE(expected.empty());
  EXPECT_TRUE(contents_of(step("restarted", later) + "/model.safetensors") == expected);
}

// The first start fails before a rank has come to the folder, which has a checkpoint of an earlier
// run.
TEST_F(TrainResume, ARestartBeforeTheFirstSaveBeginsAgain) {
  fs::create_directories(step("saved", 900));
  const std::string script = fmt::format(
      "[ $TALLY_RESTART = 1 ] || exit 9; exec {} train mlp --data {} --width 8 --steps 5 "
      "--eval-every never --checkpoint {}",
      TALLY_PROGRAM, folder_.table(100), folder_.file("saved"));
  Child tally({.command = {TALLY_PROGRAM, "run", "-n", "2", "--max-restarts", "1", "--", "/bin/sh",
                           "-c", script},
               .variables = {{"TMPDIR", folder_.file("tmp")}}});
  EXPECT_TRUE(tally.exits(0, kTrainingTime)) << tally.transcript();
  EXPECT_THAT(tally.errors(), HasSubstr("restart 1 of 1"));
  EXPECT_THAT(tally.output(), HasSubstr("completed after 5 steps"));
  EXPECT_TRUE(fs::exists(step("saved", 5)));
  EXPECT_TRUE(fs::exists(folder_.file("saved") + "/old-step-0000000900"));
}

// A limit of the file size stands for a full disk. Without shared memory, whose files are larger.
TEST_F(TrainResume, ALastCheckpointThatCannotBeWrittenIsAnError) {
  const std::string command = fmt::format(
      "trap '' XFSZ; ulimit -f 2; exec {} train mlp --workers 2 --data {} --width 8 --steps 6 "
      "--eval-every never --checkpoint-every 3 --checkpoint {}",
      TALLY_PROGRAM, folder_.table(100), folder_.file("saved"));
  Child tally({.command = {"/bin/sh", "-c", command}, .variables = {{"TALLY_TRANSPORT", "tcp"}}});
  EXPECT_TRUE(tally.exits(1, kTrainingTime)) << tally.transcript();
  EXPECT_THAT(tally.output(), ContainsRegex("completed after 6 steps"));
  EXPECT_THAT(tally.output(),
              HasSubstr("warning: 1 of the earlier checkpoints could not be written\n"));
  EXPECT_THAT(tally.output(), ContainsRegex("error: the state at the end is not saved: the "
                                            "checkpoint of step 6 was not written: .*too large"));
}

// Sets the file size limit of a worker.
void limit_files(pid_t worker, rlim_t bytes) {
  const rlimit limit{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
  ASSERT_EQ(::prlimit(worker, RLIMIT_FSIZE, &limit, nullptr), 0);
}

TEST_F(TrainResume, AFailedCheckpointBeforeALaterOneIsAWarning) {
  const std::string command = fmt::format(
      "trap '' XFSZ; exec {} train mlp --workers 1 --data {} --steps 100000000 --eval-every never "
      "--checkpoint-every 50 --checkpoint {} --log-every 10",
      TALLY_PROGRAM, folder_.table(100), folder_.file("saved"));
  Child tally({.command = {"/bin/sh", "-c", command}, .variables = {}});
  ASSERT_TRUE(tally.line_with("step 10/", kTrainingTime)) << tally.transcript();
  const pid_t worker = worker_of(tally.pid(), 0);
  ASSERT_GT(worker, 0);
  limit_files(worker, 100);
  ASSERT_TRUE(tally.line_with("was not written", kTrainingTime)) << tally.transcript();
  limit_files(worker, RLIM_INFINITY);
  tally.signal(SIGINT);
  EXPECT_TRUE(tally.exits(130, kTrainingTime)) << tally.transcript();
  EXPECT_THAT(tally.output(), ContainsRegex("warning: [0-9]+ of the earlier checkpoints"));
  EXPECT_THAT(tally.output(), Not(HasSubstr("error: ")));
}

// On Ctrl-C the launcher receives SIGINT and forwards it.
TEST_F(TrainResume, AnInterruptSavesACheckpointAndEndsAllProcesses) {
  Child tally =
      start("saved", {"--workers", "2", "--checkpoint-every", "1000000", "--steps", "100000000",
                      "--schedule", "constant", "--log-every", "5", "--eval-every", "never"});
  ASSERT_TRUE(tally.line_with("step 5/", kTrainingTime)) << tally.transcript();
  tally.signal(SIGINT);
  EXPECT_TRUE(tally.exits(130, kTrainingTime)) << tally.transcript();
  EXPECT_THAT(tally.output(), HasSubstr("interrupted after"));
  int saved = 0;
  for (const auto& entry : fs::directory_iterator(folder_.file("saved")))
    saved += entry.path().filename().string().rfind("step-", 0) == 0 ? 1 : 0;
  EXPECT_EQ(saved, 1);
  EXPECT_EQ(worker_of(tally.pid(), 0), -1);
  EXPECT_TRUE(folder_.left_nothing_behind());
  // The command that is printed continues from this checkpoint.
  EXPECT_THAT(tally.errors(), ContainsRegex("tally train: step [0-9]+ is saved in .*/saved; "));
  const std::size_t printed = tally.errors().find("\n  tally train gpt ");
  ASSERT_NE(printed, std::string::npos) << tally.transcript();
  const std::string command = tally.errors().substr(printed + std::string("\n  tally ").size());
  EXPECT_THAT(command, EndsWith(" --resume\n"));
  Child rest({.command = {"/bin/sh", "-c", fmt::format("exec {} {}", TALLY_PROGRAM, command)},
              .variables = {}});
  EXPECT_TRUE(rest.line_with("resumed from step", kTrainingTime)) << rest.transcript();
  EXPECT_TRUE(rest.line_with("loss", kTrainingTime)) << rest.transcript();
  rest.signal(SIGTERM);
  EXPECT_TRUE(rest.exits(143, kTrainingTime)) << rest.transcript();
}

TEST_F(TrainResume, AnInterruptWithoutACheckpointFolderSaysThatNothingWasSaved) {
  Child tally = folder_.train({"linear", "--samples", "200", "--workers", "1", "--steps",
                               "100000000", "--eval-every", "never", "--log-every", "10"});
  ASSERT_TRUE(tally.line_with("step 10/", kTrainingTime)) << tally.transcript();
  tally.signal(SIGINT);
  EXPECT_TRUE(tally.exits(130, kTrainingTime)) << tally.transcript();
  EXPECT_THAT(tally.errors(), HasSubstr("tally train: nothing was saved: a training with "
                                        "--checkpoint DIR is saved when it is interrupted\n"));
}

}  // namespace
}  // namespace tally::process
