// Recipes on tables of keys as users run them, on small data with a known result.
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/torch/training.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

class TrainKeyed : public WithTrainings {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    write_file(folder_.file(name), text);
    return folder_.file(name);
  }
};

// Ratings by users of two groups, each of which likes the films of one half.
std::string ratings(int rows) {
  std::string text = "userId,movieId,rating,timestamp\n";
  for (int i = 0; i < rows; ++i) {
    const int user = i % 20;
    const int movie = i / 20 % 25;
    text += fmt::format("{},{},{},0\n", user, movie, (user < 10) == (movie < 12) ? 4.5 : 2.0);
  }
  return text;
}

TEST_F(TrainKeyed, SeparableRowsAreSeparated) {
  std::string rows;
  for (int i = 0; i < 200; ++i)
    rows += i % 2 == 0 ? fmt::format("+1 {}:1 500:0.5\n", 1 + i % 7)
                       : fmt::format("-1 {}:1 600:2\n", 1 + i % 7);
  const std::string data = write("apart", rows);
  for (const char* const workers : {"1", "2"}) {
    const auto result = result_of({"logistic", "--data", data, "--workers", workers, "--batch",
                                   "20", "--epochs", "20", "--rows", "1024"});
    EXPECT_EQ(result["accuracy"], 1.0) << output_;
    EXPECT_EQ(result["auc"], 1.0);
    EXPECT_THAT(output_, HasSubstr("accuracy 100.00 %  AUC 1.0000"));
  }
}

// Three of four rows with the feature are positive, and one of four rows without it. The best loss
// is the entropy of 1/4. Of all pairs, 3/4 * 3/4 are in order and 2 * 3/4 * 1/4 are equal.
TEST_F(TrainKeyed, LogisticEndsAtTheMostLikelyWeights) {
  std::string rows;
  for (int i = 0; i < 400; ++i)
    rows +=
        fmt::format("{} 1:1{}\n", (i % 4 == 0) == (i < 200) ? "-1" : "1", i < 200 ? " 7:1" : "");
  const std::string data = write("odds", rows);
  write("odds.t", rows);
  const auto result =
      result_of({"logistic", "--data", data, "--workers", "2", "--batch", "200", "--epochs", "200",
                 "--eval-every", "200", "--optimizer", "adagrad", "--rate", "0.5", "--rows", "64"});
  const double entropy = -0.25 * std::log(0.25) - 0.75 * std::log(0.75);
  EXPECT_NEAR(result["test_loss"].get<double>(), entropy, 1e-3) << output_;
  EXPECT_EQ(result["accuracy"], 0.75);
  EXPECT_NEAR(result["auc"].get<double>(), 0.75, 1e-12);
}

TEST_F(TrainKeyed, TablesAreLearnedByTheDeepModels) {
  const std::string data = write("ratings.csv", ratings(1000));
  for (const char* const recipe : {"deepfm", "widedeep"}) {
    const auto result = result_of({recipe, "--data", data, "--workers", "2", "--batch", "50",
                                   "--epochs", "12", "--rate", "0.01", "--hidden", "16", "--rows",
                                   "2048", "--report", folder_.file("report.html")});
    EXPECT_GE(result["auc"].get<double>(), 0.99) << output_;
    EXPECT_EQ(result["points"].back()["auc"], result["auc"]);
    EXPECT_THAT(contents_of(folder_.file("report.html")), HasSubstr("test AUC"));
  }
}

// Ten epochs of one step each would not be enough.
TEST_F(TrainKeyed, SmallTableOfYourOwnIsLearnedByDefault) {
  const auto result =
      result_of({"logistic", "--data", folder_.table(300), "--target", "side", "--workers", "2"});
  EXPECT_GE(result["accuracy"].get<double>(), 0.9) << output_;
  EXPECT_EQ(result["steps"], 200);
  EXPECT_THAT(output_, HasSubstr("2 columns as 4 slots of keys, target side (over or under)"));
  EXPECT_THAT(output_, HasSubstr("epoch 20 "));
  EXPECT_THAT(output_, testing::Not(HasSubstr("epoch 10 ")));
}

TEST_F(TrainKeyed, AnIntervalThatIsSetCountsTheShortEpochs) {
  result_of({"logistic", "--data", folder_.table(300), "--target", "side", "--workers", "2",
             "--eval-every", "1 epoch"});
  EXPECT_THAT(output_, HasSubstr("epoch 10 "));
  EXPECT_THAT(output_, HasSubstr("epoch 11 "));
}

TEST_F(TrainKeyed, DataThatDoNotFitAreRefusedInOneLine) {
  const std::string sparse = write("sparse", "+1 1:1\n-1 2:1\n");
  const struct {
    std::vector<std::string> words;
    std::string says;
  } cases[] = {
      {{"logistic"}, "--data: name a file or a folder"},
      {{"logistic", "--data", folder_.text()}, "is no table: expected a file .csv"},
      {{"logistic", "--data", folder_.images(20)}, "name the file"},
      {{"logistic", "--data", sparse, "--target", "x"}, "only a csv table has a target"},
      {{"deepfm", "--data", folder_.table(20), "--target", "x"}, "column x has 20 classes ('-0."},
      {{"deepfm", "--data", sparse}, "for rows in libsvm's form there is logistic"},
      {{"widedeep", "--data", write("clicks.tsv", "1\t2\n\t3\n")},
       "clicks.tsv: line 2: expected a label 0 or 1, found ''"},
      {{"logistic", "--data", write("three", "1 1:1\n2 1:1\n3 1:1\n")}, "has labels of 3 kinds"},
      {{"deepfm", "--data", write("ratings.csv", ratings(20)), "--dropout", "2"}, "--dropout"},
  };
  for (const auto& c : cases) {
    Child tally = folder_.train(c.words);
    EXPECT_TRUE(tally.exits(2)) << tally.transcript();
    EXPECT_THAT(tally.errors(), HasSubstr(c.says));
    EXPECT_TRUE(folder_.left_nothing_behind());
  }
}

}  // namespace
}  // namespace tally::process
