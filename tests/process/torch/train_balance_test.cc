// Workers of one job that have different speeds.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/torch/training.h"

namespace tally::process {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kSamples = 1000;       // of which a tenth is the test part
constexpr std::uint64_t kStep = 64;  // samples, of both workers

// Worker 1 takes so much longer that nothing else on this machine can slow worker 0 down as much.
class TrainBalance : public WithTrainings {
 protected:
  std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"mlp",
                                    "--data",
                                    folder_.table(kSamples),
                                    "--width",
                                    "32",
                                    "--batch",
                                    std::to_string(kStep / 2),
                                    "--epochs",
                                    "6",
                                    "--balance",
                                    "speed",
                                    "--straggle",
                                    "rank=1,factor=30"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(TrainBalance, PartsMoveToTheFastWorkerAndEverySampleCountsOnce) {
  const std::string report = folder_.file("report.html");
  const auto result = result_of(words({"--device", "cpu,cpu", "--report", report}));
  EXPECT_EQ(result["workers"], 2);
  ASSERT_EQ(result["parts"].size(), 2U) << output_;
  const auto fast = result["parts"][0].get<std::uint64_t>();
  const auto slow = result["parts"][1].get<std::uint64_t>();
  EXPECT_EQ(fast + slow, kStep);
  EXPECT_GT(fast, 2 * slow);
  EXPECT_GE(slow, 1U);
  // As many samples and steps as with equal parts: 900 samples are 15 steps.
  EXPECT_EQ(result["samples"], 6 * 900);
  EXPECT_EQ(result["steps"], 6 * 15);
  EXPECT_EQ(result["epochs"], 6.0);
  EXPECT_GE(result["accuracy"].get<double>(), 0.85) << output_;
  const std::string parts = fmt::format("{}, {}", fast, slow);
  EXPECT_THAT(output_, HasSubstr("samples of a step by worker, at the end: " + parts + "\n"));
  ASSERT_FALSE(result["events"].empty());
  EXPECT_EQ(result["events"].front()["step"], 10);
  EXPECT_EQ(result["events"].back()["text"], "samples of a step by worker: " + parts);
  EXPECT_THAT(contents_of(report), HasSubstr("Samples of a step, at the end"));
  EXPECT_EQ(result["configuration"]["balance"], "speed");
  EXPECT_EQ(result["configuration"]["device"], "cpu,cpu");
}

// The checkpoint has the position that all workers share, so it does not matter what parts they
// had.
TEST_F(TrainBalance, AResumedTrainingReadsTheRestOfTheSamplesOnce) {
  const std::vector<std::string> saving = {
      "--workers",          "2",  "--checkpoint", folder_.file("saved"),
      "--checkpoint-every", "20", "--keep",       "9"};
  EXPECT_EQ(result_of(words(saving))["steps"], 90);
  std::vector<std::string> again = saving;
  again.push_back("--resume=20");
  const auto rest = result_of(words(again));
  EXPECT_THAT(output_, HasSubstr("resumed from step 20"));
  EXPECT_EQ(rest["steps"], 90);
  // Step 20 is the fifth of the second epoch.
  EXPECT_EQ(rest["samples"], 6 * 900 - (900 + 5 * kStep));
  // It compares speeds anew after its first ten steps.
  ASSERT_GE(rest["events"].size(), 2U);
  EXPECT_THAT(rest["events"][1]["text"].get<std::string>(), HasSubstr("samples of a step"));
  EXPECT_EQ(rest["events"][1]["step"], 30);
}

TEST_F(TrainBalance, EvenPartsAreNotReported) {
  const auto result = result_of({"mlp", "--data", folder_.table(100), "--device", "cpu,cpu",
                                 "--width", "8", "--epochs", "1"});
  EXPECT_FALSE(result.contains("parts"));
  EXPECT_THAT(output_, Not(HasSubstr("samples of a step by worker")));
}

}  // namespace
}  // namespace tally::process
