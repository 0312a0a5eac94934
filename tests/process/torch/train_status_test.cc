// A training that is watched with `tally status` and `tally inspect trace`.
#include <unistd.h>

#include <csignal>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/torch/training.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

class TrainStatus : public testing::Test {
 protected:
  Child start(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"mlp",
                                      "--data",
                                      folder_.table(60),
                                      "--width",
                                      "8",
                                      "--batch",
                                      "4",
                                      "--workers",
                                      "2",
                                      "--no-progress",
                                      "--eval-every",
                                      "never",
                                      "--checkpoint",
                                      folder_.file("saved"),
                                      "--checkpoint-every",
                                      "1000000000"};
    words.insert(words.end(), more.begin(), more.end());
    return folder_.train(words);
  }

  // The output of `tally ...`; empty if it fails.
  std::string output_of(std::vector<std::string> words) const {
    words.insert(words.begin(), TALLY_PROGRAM);
    Child tally({.command = words, .variables = {{"TMPDIR", folder_.file("tmp")}}});
    return tally.exits(0) ? tally.output() : "";
  }

  const TrainingFolder folder_;
};

TEST_F(TrainStatus, HasTheStepOfTheWholeTrainingItsFiguresAndItsPhases) {
  // A model that learns has a loss of exactly 0 in some steps, once it fits all 60 rows.
  const std::string rate = "1e-9";
  Child first = start({"--steps", "100", "--rate", rate});
  ASSERT_TRUE(first.exits(0, kTrainingTime)) << first.transcript();
  const std::string job = fmt::format("own-name-{}", ::getpid());
  Child resumed = start({"--resume", "--steps", "1000000000", "--rate", rate, "--job", job});
  ASSERT_TRUE(resumed.line("resumed from step 100", kTrainingTime)) << resumed.transcript();
  nlohmann::json rank;
  std::int64_t end = now_ms() + kTrainingTime.count();
  const nlohmann::json::json_pointer left("/figures/left_s");
  while (!rank.contains(left) && now_ms() < end) {
    const auto status = nlohmann::json::parse(output_of({"status", job, "--json"}), nullptr, false);
    if (status.is_object()) rank = status["ranks"][0];
  }
  ASSERT_TRUE(rank.contains(left)) << rank.dump();
  EXPECT_GT(rank["step"], 100);
  EXPECT_GT(rank["figures"]["loss"], 0);
  EXPECT_GT(rank["figures"]["left_s"], 0);
  EXPECT_GT(rank["figures"]["epoch"], 100.0 * 8 / 60);
  // Ranks of a busy machine may answer too late.
  end = now_ms() + kTrainingTime.count();
  std::string trace;
  while (trace.find("bucket 0") == std::string::npos && now_ms() < end)
    trace = output_of({"inspect", "trace", job, "--last", "600"});
  for (const char* const phase : {"forward", "backward", "bucket 0", "update"})
    EXPECT_THAT(trace, HasSubstr(fmt::format("training     {} ", phase)));
  resumed.signal(SIGINT);
  EXPECT_TRUE(resumed.exits(130)) << resumed.transcript();
}

// On servers the others do not need a lost worker, so they have not failed.
TEST_F(TrainStatus, WorkersThatGoOnWithoutALostOneHaveNotFailed) {
  Child tally = start({"--steps", "1000000000", "--servers", "1"});
  const std::string job = fmt::format("train-mlp-{}", tally.pid());
  nlohmann::json ranks;
  const auto becomes = [&](const auto& wanted) {
    const std::int64_t end = now_ms() + kTrainingTime.count();
    while (now_ms() < end) {
      const auto status =
          nlohmann::json::parse(output_of({"status", job, "--json"}), nullptr, false);
      if (status.is_object()) ranks = status["ranks"];
      if (status.is_object() && wanted()) return true;
    }
    return false;
  };
  ASSERT_TRUE(becomes([&] { return ranks[0].value("step", 0) > 0; })) << tally.transcript();
  kill(worker_of(tally.pid(), 1), SIGKILL);
  ASSERT_TRUE(becomes([&] { return ranks[1]["state"] == "lost"; })) << ranks.dump();
  // The next reports come after the loss.
  const int step = ranks[0]["step"];
  ASSERT_TRUE(becomes([&] { return ranks[0]["step"] > step; })) << ranks.dump();
  const int later = ranks[0]["step"];
  ASSERT_TRUE(becomes([&] { return ranks[0]["step"] > later; })) << ranks.dump();
  EXPECT_NE(ranks[0]["state"], "failed") << ranks.dump();
  tally.signal(SIGINT);
  EXPECT_TRUE(tally.exits(130, kTrainingTime)) << tally.transcript();
}

}  // namespace
}  // namespace tally::process
