// `tally train` as users run it, on data of a few samples.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/torch/training.h"

namespace tally::process {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Train : public WithTrainings {};

TEST_F(Train, LinearEndsWithWeightsThatMatchTheClosedForm) {
  for (const int workers : {1, 3}) {
    Child tally = folder_.train(
        {"linear", "--workers", std::to_string(workers), "--samples", "2000", "--features", "4"});
    EXPECT_TRUE(tally.exits(0, kTrainingTime)) << tally.transcript();
    EXPECT_THAT(tally.output(), HasSubstr("the learned weights match the closed-form solution"));
  }
}

TEST_F(Train, ATableIsLearnedByAnyNumberOfWorkers) {
  const std::string table = folder_.table(301);
  for (const int workers : {1, 2, 3}) {
    const auto result =
        result_of({"mlp", "--workers", std::to_string(workers), "--data", table, "--batch", "10",
                   "--epochs", "6", "--width", "16", "--layers", "1", "--rate", "0.2"});
    EXPECT_EQ(result["workers"], workers);
    EXPECT_EQ(result["times"].size(), static_cast<std::size_t>(workers));
    EXPECT_GE(result["accuracy"].get<double>(), 0.85) << output_;
    EXPECT_EQ(result["outcome"], "completed");
  }
}

TEST_F(Train, TheTargetColumnAndTheTestPartAreChosenAndStated) {
  const std::string table = folder_.table(60);
  const nlohmann::json numbers =
      result_of({"linear", "--data", table, "--target", "x", "--validation", "0.25", "--workers",
                 "2", "--epochs", "1", "--rate", "0.01"});
  EXPECT_THAT(output_, HasSubstr(table + ": 3 features, target x (numbers); 25 % held out for the "
                                         "test\n"));
  EXPECT_FALSE(numbers.contains("accuracy"));
  const std::string test = folder_.file("later.csv");
  std::filesystem::copy_file(table, test);
  const nlohmann::json classes =
      result_of({"mlp", "--data", table, "--target", "side", "--classes", "--validation", test,
                 "--workers", "1", "--epochs", "1"});
  EXPECT_THAT(output_,
              HasSubstr(table + ": 2 features, target side (2 classes); test part " + test + "\n"));
  EXPECT_THAT(output_, HasSubstr("60 training and 60 test samples"));
  EXPECT_TRUE(classes.contains("accuracy"));
}

TEST_F(Train, ImagesAreLearnedAndTheReportWritten) {
  const auto result =
      result_of({"lenet", "--workers", "2", "--data", folder_.images(60), "--batch", "5",
                 "--epochs", "3", "--eval-every", "10", "--report", folder_.file("report.html")});
  EXPECT_EQ(result["parameters"], 61706 - 8 * 85);  // two classes instead of ten
  EXPECT_EQ(result["steps"], 18);
  EXPECT_GE(result["accuracy"].get<double>(), 0.9) << output_;
  EXPECT_THAT(output_, HasSubstr("step 10 "));
  // The record says how to repeat the run, and where it was.
  EXPECT_THAT(result["command"].get<std::string>(), StartsWith("tally train lenet --workers 2 "));
  EXPECT_NE(result["configuration"]["host"], "");
  // Each step has a point of the training curves, and each evaluation has another one.
  ASSERT_EQ(result["points"].size(), 18U + 2U);
  EXPECT_GT(result["points"][0]["rate"].get<double>(), 0);
  EXPECT_THAT(contents_of(folder_.file("report.html")), HasSubstr("lenet"));
}

TEST_F(Train, TheTargetAccuracyEndsTheTraining) {
  const auto result =
      result_of({"mlp", "--workers", "2", "--data", folder_.table(300), "--batch", "10", "--epochs",
                 "500", "--eval-every", "20", "--width", "8", "--target-accuracy", "0.6"});
  EXPECT_EQ(result["outcome"], "target accuracy reached");
  EXPECT_LT(result["epochs"].get<double>(), 500);
}

TEST_F(Train, EarlyStopEndsATrainingThatDoesNotImprove) {
  // The learning rate is so small that nothing changes.
  const auto result = result_of({"mlp", "--workers", "2", "--data", folder_.table(100), "--batch",
                                 "10", "--steps", "500", "--eval-every", "5", "--rate", "1e-30",
                                 "--schedule", "constant", "--early-stop", "2"});
  EXPECT_EQ(result["outcome"], "stopped early: no lower test loss");
  EXPECT_EQ(result["steps"], 15);
}

TEST_F(Train, GptContinuesTheText) {
  const auto result = result_of({"gpt", "--workers", "2", "--data", folder_.text(), "--batch", "4",
                                 "--epochs", "12", "--layers", "1", "--width", "32", "--context",
                                 "16", "--sample-length", "60", "--rate", "0.01"});
  EXPECT_EQ(result["unit"], "tokens");
  EXPECT_LT(result["test_loss"].get<double>(), 2.0);
  EXPECT_EQ(result["final_text"].get<std::string>().size(), 60U);
}

TEST_F(Train, OptionsInAFileAreOverriddenByTheCommandLine) {
  write_file(folder_.file("config"), "steps=7\nworkers=2\nwidth=8\nbatch=4\n");
  const auto result = result_of(
      {"mlp", "--config", folder_.file("config"), "--steps", "5", "--data", folder_.table(50)});
  EXPECT_EQ(result["steps"], 5);
  EXPECT_EQ(result["workers"], 2);
}

TEST_F(Train, JoinsTheJobOfALauncher) {
  Child tally({.command = {TALLY_PROGRAM, "run", "-n", "2", "--", TALLY_PROGRAM, "train", "linear",
                           "--samples", "500"},
               .variables = {{"TMPDIR", folder_.file("tmp")}}});
  EXPECT_TRUE(tally.exits(0, kTrainingTime)) << tally.transcript();
  EXPECT_THAT(tally.output(), HasSubstr("[0] 2 workers x batch"));
  EXPECT_THAT(tally.output(), HasSubstr("match the closed-form"));
}

TEST_F(Train, AccumulatedBatchesMakeOneStep) {
  const auto result = result_of({"mlp", "--workers", "2", "--data", folder_.table(200), "--batch",
                                 "5", "--accumulate", "4", "--epochs", "2", "--width", "8",
                                 "--clip-norm", "1", "--precision", "bfloat16"});
  // 180 training samples: 18 batches of 10 an epoch.
  EXPECT_EQ(result["steps"], 9);
}

}  // namespace
}  // namespace tally::process
