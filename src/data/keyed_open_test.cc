#include "data/keyed_open.h"

#include <set>

#include <gtest/gtest.h>

#include "data/open.h"
#include "data/test_files.h"

namespace tally::data {
namespace {

const std::string kAdultRow =
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K";

Result<std::unique_ptr<KeyedDataset>> opened(const std::filesystem::path& path, bool train,
                                             double validation = 0.1) {
  TALLY_TRY(const Location location, locate_keyed(path.string(), ""));
  return open_keyed(location, {.validation = validation, .train = train});
}

TEST(OpenKeyed, LibsvmRowsStaySparseAndBothPartsAreAsWide) {
  const TestFolder folder;
  const auto file = folder.write("a9a", "-1 3:1 4000000:0.5\n+1 2:1\n");
  folder.write_gzip("a9a.t", "+1 1:1 2:1 3:1\n");
  for (const bool train : {true, false}) {
    const auto dataset = opened(file, train);
    ASSERT_TRUE(dataset.has_value()) << dataset.error().message;
    EXPECT_EQ((*dataset)->shape().input, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ((*dataset)->classes(), (std::vector<std::string>{"-1", "1"}));
    EXPECT_EQ((*dataset)->size(), train ? 2U : 1U);
    EXPECT_TRUE((*dataset)->fields().empty());
  }
  const auto first = sample_of(**opened(file, true), 0);
  EXPECT_EQ(first.input[0], 2);
  EXPECT_EQ(first.input[1], 3999999);
  EXPECT_EQ(first.input[2], -1);
}

TEST(OpenKeyed, AdultHasItsTestPart) {
  const TestFolder folder;
  folder.write("adult.data", kAdultRow + "\n" + kAdultRow + "\n");
  folder.write_gzip("adult.test.gz", "|1x3 Cross validator\n" + kAdultRow + ".\n\n");
  for (const std::string& name : {std::string(), std::string("adult.data")}) {
    EXPECT_EQ((*opened(folder.path() / name, true))->size(), 2U);
    EXPECT_EQ((*opened(folder.path() / name, false))->size(), 1U);
  }
  // locate() still finds it as a plain table.
  EXPECT_EQ(locate((folder.path() / "adult.data").string(), "")->kind, Kind::kCsv);
}

TEST(OpenKeyed, RatingsTakeTheGenresBesideThem) {
  const TestFolder folder;
  const auto file = folder.write("ratings.csv", "userId,movieId,rating\n1,2,3\n1,3,5\n");
  EXPECT_EQ((*opened(file, true, 0))->fields().size(), 2U);
  folder.write("movies.csv", "movieId,title,genres\n2,x,War|Drama\n");
  EXPECT_EQ((*opened(folder.path(), true, 0))->fields(),
            (std::vector<std::string>{"user", "movie", "Drama", "War"}));
  const auto found = open_dataset(folder.path().string(), "", {.read = {.validation = 0.0}});
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ((*found)->size(), 2U);
}

// So many workers that the share of one is less than any of these files.
TEST(OpenKeyed, WorkersOfAHostShareItsMemory) {
  const TestFolder folder;
  const auto sparse = folder.write("a.libsvm", "1 1:2\n-1 1:3\n");
  const auto ratings = folder.write("ratings.csv", "userId,movieId,rating,timestamp\n1,2,4.0,9\n");
  for (const auto& file : {sparse, ratings}) {
    auto location = locate_keyed(file.string(), "");
    ASSERT_TRUE(location.has_value()) << location.error().message;
    location->readers = 2000000000;
    const auto opened = open_keyed(*location, {});
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code, ErrorCode::kExhausted) << opened.error().message;
  }
}

TEST(OpenKeyed, WithoutATestPartATenthIsHeldOut) {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "0\t" + std::to_string(i) + "\n";
  const auto file = folder.write("train.txt", text);
  folder.write("test.txt", "\t5\n");  // Criteo's test file has no labels
  EXPECT_EQ((*opened(folder.path(), true))->size(), 90U);
  EXPECT_EQ((*opened(file, false))->size(), 10U);
}

TEST(OpenKeyed, ATableReadByColumnsHasTheTestPartOfItsFormat) {
  const ReadOptions by_columns{.target = CsvTarget::kClass};
  const auto test_of = [&](const TestFolder& folder, const char* name) {
    const auto located = locate_keyed_parts((folder.path() / name).string(), "", by_columns);
    EXPECT_TRUE(located.has_value()) << located.error().message;
    return located ? located->test : std::vector<std::filesystem::path>{};
  };
  const TestFolder criteo;
  criteo.write("train.txt", "0\t1\n1\t2\n");
  for (const char* unlabelled : {"\t5\n", "5\n"}) {
    criteo.write("test.txt", unlabelled);
    for (const char* name : {"", "train.txt"}) EXPECT_TRUE(test_of(criteo, name).empty());
  }
  const auto labelled = criteo.write("test.txt", "1\t5\n");
  for (const char* name : {"", "train.txt"})
    EXPECT_EQ(test_of(criteo, name), std::vector<std::filesystem::path>{labelled});
  const TestFolder adult;
  adult.write("adult.data", kAdultRow + "\n" + kAdultRow + "\n");
  const auto test = adult.write("adult.test", kAdultRow + "\n");
  for (const char* name : {"", "adult.data"})
    EXPECT_EQ(test_of(adult, name), std::vector<std::filesystem::path>{test});
  // The published test part has other labels.
  adult.write("adult.test", "|1x3 Cross validator\n" + kAdultRow + ".\n");
  for (const char* name : {"", "adult.data"}) EXPECT_TRUE(test_of(adult, name).empty());
}

TEST(OpenKeyed, WhatDoesNotFitIsRefusedInOneLine) {
  const TestFolder folder;
  const auto novel = folder.write("novel.txt", "Call me Ishmael.\n");
  const auto three = folder.write("three", "1 1:1\n2 1:1\n3 1:1\n");
  const auto one = folder.write("one", "1 1:1\n1 2:1\n");
  const std::pair<std::filesystem::path, std::string> cases[] = {
      {novel,
       novel.string() +
           " is no table: expected a file .csv, .tsv or .data, Criteo's click log, or rows in "
           "libsvm's form"},
      {three, three.string() + " has labels of 3 kinds: two are taken, such as -1 and 1"},
      {one, one.string() + " has labels of 1 kind: two are taken, such as -1 and 1"},
      {folder.path(), folder.path().string() +
                          " has no ratings.csv, adult.data, or train.txt, .tsv, .csv or .libsvm: "
                          "name the file"},
  };
  for (const auto& [path, message] : cases) {
    const auto dataset = opened(path, true);
    ASSERT_FALSE(dataset.has_value()) << path;
    EXPECT_EQ(dataset.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(dataset.error().message, message);
  }
  EXPECT_EQ(opened(folder.path() / "nothing", true).error().code, ErrorCode::kSystem);
  const auto two = folder.write("two", "1 1:1\n2 1:1\n");
  const auto strange = folder.write("two.t", "2 1:1\n3 1:1\n");
  EXPECT_EQ(opened(two, true).error().message,
            strange.string() + ": row 2: expected a label 1 or 2, found 3");
}

}  // namespace
}  // namespace tally::data
