// `tally train` under every update policy, with servers in their own processes and inside the
// workers, and with servers or workers that die.
#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/processes.h"
#include "process/torch/training.h"

namespace tally::process {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Part of every line about steps. Where workers do not wait for each other the numbers of steps are
// not known in advance.
constexpr const char* kProgress = "samples/s";

// The children of `tally` whose command line contains `word`.
std::vector<pid_t> children_with(pid_t tally, const std::string& word) {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes())
    if (parent_of(pid) == tally && words_of(pid).find(word) != std::string::npos)
      found.push_back(pid);
  return found;
}

constexpr int kLongSteps = 1500;

class TrainPolicy : public WithTrainings {
 protected:
  // The delays of the steps take six seconds, long enough for a kill in the middle. The training
  // ends by itself.
  std::vector<std::string> long_training(const std::string& plan) {
    return {"mlp",
            "--workers",
            "3",
            "--servers",
            "2",
            "--data",
            folder_.table(200),
            "--batch",
            "4",
            "--steps",
            std::to_string(kLongSteps),
            "--width",
            "16",
            "--layers",
            "1",
            "--schedule",
            "constant",
            "--rate",
            "0.05",
            "--eval-every",
            "500",
            "--log-every",
            "10",
            "--plan",
            plan,
            "--delay",
            "constant:4ms"};
  }
};

TEST_F(TrainPolicy, EveryPolicyTrainsOnServersAndInTheGroup) {
  const std::string table = folder_.table(301);
  const auto train = [&](const std::string& plan, std::vector<std::string> more) {
    std::vector<std::string> words = {"mlp",        "--workers", "3",        "--data", table,
                                      "--batch",    "10",        "--epochs", "8",      "--width",
                                      "16",         "--layers",  "1",        "--rate", "0.2",
                                      "--schedule", "constant",  "--plan",   plan};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = result_of(words);
    ASSERT_TRUE(result.is_object()) << plan << output_;
    EXPECT_GE(result["accuracy"].get<double>(), 0.85) << plan << output_;
    EXPECT_EQ(result["outcome"], "completed") << plan;
    EXPECT_GE(result["steps"].get<int>(), 80) << plan;
  };
  for (const char* plan : {"update=bsp", "update=asp", "update=ssp:3 stale=scale",
                           "update=backup:1", "update=subset:2", "update=kbatch:3"})
    train(plan, {"--servers", "2"});
  train("home=server update=ssp:2", {});
  train("home=server", {"--servers", "1,colocated"});
  train("update=backup:1", {});
  train("update=subset:2", {});
}

TEST_F(TrainPolicy, ServersApplyLambAndWarnOfCodecsThatHarmIt) {
  const auto result =
      result_of({"mlp", "--workers", "2", "--servers", "2", "--data", folder_.table(200),
                 "--epochs", "8", "--rate", "0.02", "--optimizer", "lamb", "--plan", "codec=sign"});
  EXPECT_GE(result["accuracy"].get<double>(), 0.8) << output_;
  EXPECT_THAT(output_, HasSubstr("codec=int8 keeps the accuracy"));
}

TEST_F(TrainPolicy, SgdWithLateGradientsWarmsUpLonger) {
  const std::string table = folder_.table(100);
  const auto warmup = [&](const std::string& plan, const std::vector<std::string>& more) {
    std::vector<std::string> words{"mlp",
                                   "--workers",
                                   "2",
                                   "--data",
                                   table,
                                   "--steps",
                                   "40",
                                   "--eval-every",
                                   "never",
                                   "--plan",
                                   "home=server " + plan};
    words.insert(words.end(), more.begin(), more.end());
    result_of(words);
    const std::size_t at = output_.find("warmup=");
    return at == std::string::npos ? "" : output_.substr(at, output_.find('\n', at) - at);
  };
  EXPECT_EQ(warmup("update=bsp", {}), "warmup=4");
  EXPECT_EQ(warmup("update=asp", {}), "warmup=12");
  EXPECT_EQ(warmup("update=asp", {"--optimizer", "adam"}), "warmup=4");
  EXPECT_EQ(warmup("update=asp", {"--schedule", "cosine:warmup=7"}), "warmup=7");
  EXPECT_EQ(output_.find("may diverge"), std::string::npos) << output_;
  warmup("update=asp", {"--schedule", "onecycle"});
  EXPECT_EQ(output_.find("may diverge"), std::string::npos) << output_;
  warmup("update=asp", {"--schedule", "cosine"});
  EXPECT_THAT(output_, HasSubstr("--schedule cosine: with late gradients sgd may diverge"));
}

TEST_F(TrainPolicy, ASlowWorkerIsSlowAndADelayIsApplied) {
  const auto result = result_of({"mlp", "--workers", "2", "--data", folder_.table(100), "--batch",
                                 "10", "--steps", "5", "--eval-every", "never", "--straggle",
                                 "rank=1,factor=2", "--delay", "constant:20ms"});
  ASSERT_EQ(result["times"].size(), 2U);
  // Five delays count as computing.
  for (const auto& times : result["times"]) EXPECT_GE(times["compute_s"].get<double>(), 0.1);
}

TEST_F(TrainPolicy, AKilledServerEndsNothing) {
  for (const char* plan : {"update=bsp", "update=ssp:3"}) {
    Child tally = folder_.train(long_training(plan));
    ASSERT_TRUE(tally.line_with(kProgress, kTrainingTime)) << tally.transcript();
    const auto servers = children_with(tally.pid(), "--server");
    ASSERT_EQ(servers.size(), 2U) << tally.transcript();
    kill(servers.front(), SIGKILL);
    EXPECT_TRUE(tally.exits(0, kTrainingTime)) << tally.transcript();
    EXPECT_THAT(tally.output(), HasSubstr("completed after")) << tally.transcript();
    EXPECT_TRUE(folder_.left_nothing_behind());
  }
}

TEST_F(TrainPolicy, AKilledWorkerIsReportedAndTheOthersGoOn) {
  for (const auto& [plan, victim] :
       {std::pair{"update=bsp", 1}, std::pair{"update=asp", 2}, std::pair{"update=ssp:2", 0}}) {
    const std::string json = folder_.file("lost.jsonl");
    fs::remove(json);
    std::vector<std::string> words = long_training(plan);
    words.insert(words.end(), {"--json", json, "--report", folder_.file("lost.html")});
    Child tally = folder_.train(words);
    ASSERT_TRUE(tally.line_with(kProgress, kTrainingTime)) << tally.transcript();
    const pid_t worker = worker_of(tally.pid(), victim);
    ASSERT_GT(worker, 0);
    kill(worker, SIGKILL);
    EXPECT_TRUE(tally.exits(0, kTrainingTime)) << plan << tally.transcript();
    EXPECT_THAT(tally.errors(), HasSubstr(fmt::format("rank {} on ", victim)));
    EXPECT_THAT(tally.errors(), HasSubstr("the other 2 go on without it"));
    EXPECT_THAT(tally.errors(), HasSubstr("warning: 1 of 3 ranks failed"));
    EXPECT_THAT(tally.output(), HasSubstr("completed after")) << tally.transcript();
    const std::string loss = fmt::format("worker {} was lost after step ", victim);
    EXPECT_THAT(tally.output(), HasSubstr("warning: " + loss)) << tally.transcript();
    EXPECT_THAT(contents_of(folder_.file("lost.html")), HasSubstr(loss));
    const auto record = nlohmann::json::parse(contents_of(json), nullptr, false);
    ASSERT_EQ(record["lost_workers"].size(), 1U) << plan << record;
    EXPECT_EQ(record["lost_workers"][0]["rank"], victim);
    EXPECT_EQ(record["times"].size(), 2U);
    // A step has 12 samples, and an epoch of 180 has no shorter one. With asp the others make the
    // batches of the lost worker, so its samples do not add up to those of all steps.
    if (std::string_view(plan) != "update=asp") {
      EXPECT_EQ(record["samples"].get<int>() + record["lost_samples"].get<int>(), kLongSteps * 12)
          << plan;
    }
    EXPECT_LT(record["lost_samples"].get<int>(), kLongSteps * 12 / 3) << plan;
    EXPECT_TRUE(folder_.left_nothing_behind());
  }
}

// An epoch has whole batches only, so that each gradient of a worker moves its position by the
// samples of two batches: the positions of both count the gradients of all steps.
TEST_F(TrainPolicy, EveryAsynchronousWorkerContinuesAtItsOwnPosition) {
  constexpr int kSize = 180;
  constexpr int kBatch = 10;
  const std::string table = folder_.table(200);
  const auto places_after = [&](int steps) {
    const auto result = result_of({"mlp",
                                   "--workers",
                                   "2",
                                   "--data",
                                   table,
                                   "--batch",
                                   std::to_string(kBatch),
                                   "--width",
                                   "16",
                                   "--layers",
                                   "1",
                                   "--steps",
                                   std::to_string(steps),
                                   "--schedule",
                                   "constant",
                                   "--eval-every",
                                   "never",
                                   "--checkpoint",
                                   folder_.file("asp"),
                                   "--resume=auto",
                                   "--straggle",
                                   "rank=1,factor=150",
                                   "--servers",
                                   "1",
                                   "--plan",
                                   "update=asp"});
    EXPECT_EQ(result["steps"], steps) << output_;
    const auto state = nlohmann::json::parse(
        contents_of(fmt::format("{}/step-{:010}/state.json", folder_.file("asp"), steps)), nullptr,
        false);
    std::vector<int> places;
    for (const auto& position : state["train"]["positions"])
      places.push_back(position["epoch"].get<int>() * kSize + position["samples"].get<int>());
    return places;
  };
  const auto first = places_after(60);
  ASSERT_EQ(first.size(), 2U) << output_;
  EXPECT_EQ(first[0] + first[1], 60 * 2 * 2 * kBatch);
  ASSERT_GT(first[0] - first[1], 10 * 2 * 2 * kBatch);
  const auto second = places_after(70);
  ASSERT_EQ(second.size(), 2U) << output_;
  EXPECT_EQ(second[0] + second[1], 70 * 2 * 2 * kBatch);
  // No position goes back.
  EXPECT_GE(second[0], first[0]);
  EXPECT_GE(second[1], first[1]);
}

TEST_F(TrainPolicy, TheStateOfServersIsSavedAndResumedInAnyHome) {
  const std::string table = folder_.table(200);
  const auto train = [&](const std::string& plan, int steps, bool resume) {
    std::vector<std::string> words = {"mlp",
                                      "--workers",
                                      "2",
                                      "--data",
                                      table,
                                      "--batch",
                                      "10",
                                      "--width",
                                      "16",
                                      "--layers",
                                      "1",
                                      "--steps",
                                      std::to_string(steps),
                                      "--rate",
                                      "0.01",
                                      "--optimizer",
                                      "adam",
                                      "--schedule",
                                      "constant",
                                      "--eval-every",
                                      "never",
                                      "--checkpoint",
                                      folder_.file("runs"),
                                      "--plan",
                                      plan};
    if (resume) words.emplace_back("--resume");
    return result_of(words);
  };
  train("home=server update=bsp", 10, false);
  EXPECT_EQ(train("home=group", 20, true)["steps"], 20);
  EXPECT_THAT(output_, HasSubstr("resumed from step 10"));
  EXPECT_EQ(train("home=server update=ssp:2", 30, true)["steps"], 30);
  EXPECT_THAT(output_, HasSubstr("resumed from step 20"));
}

TEST_F(TrainPolicy, OptionsThatContradictEachOtherAreRefusedBeforeAnythingStarts) {
  const std::string table = folder_.table(50);
  struct Row {
    std::vector<std::string> words;
    std::string complaint;
  };
  const std::vector<Row> rows = {
      {{"--plan", "update=ssp:3"}, "home=server"},
      {{"--plan", "home=group", "--servers", "2"}, "with home=group there are none"},
      {{"--servers", "two"}, "2,colocated"},
      {{"--servers", "3,colocated"}, "only 2 workers"},
      {{"--plan", "home=server update=asp", "--optimizer", "lamb"}, "norms of whole parameters"},
      {{"--plan", "home=server update=asp stale=compensate:1 codec=sign"}, "momentum=late"},
      {{"--replicas", "2"}, "no servers"},
      {{"--straggle", "rank=2,factor=4"}, "the workers are 0 to 1"},
      {{"--straggle", "rank=1"}, "factor=4"},
      {{"--delay", "20ms"}, "exponential:20ms"},
      {{"--plan", "update=backup:2"}, "need at most backup"}};
  for (const Row& row : rows) {
    std::vector<std::string> words = {"mlp", "--workers", "2", "--data", table};
    words.insert(words.end(), row.words.begin(), row.words.end());
    Child tally = folder_.train(words);
    EXPECT_TRUE(tally.exits(2, kTrainingTime)) << tally.transcript();
    EXPECT_THAT(tally.errors(), HasSubstr(row.complaint)) << tally.transcript();
  }
}

}  // namespace
}  // namespace tally::process
