#include "data/read_options.h"

#include <gtest/gtest.h>

#include "data/open.h"
#include "data/test_files.h"
#include "data/test_images.h"

namespace tally::data {
namespace {

std::string houses(int rows) {
  std::string text = "area,town,price\n";
  for (int i = 0; i < rows; ++i)
    text += std::to_string(i) + (i % 2 == 0 ? ",Ulm," : ",Kiel,") + std::to_string(i * 3) + "\n";
  return text;
}

std::string facts_of(const std::string& path, const ReadOptions& read) {
  const auto location = locate_parts(path, "", read);
  if (!location.has_value()) return location.error().message;
  const auto train = open_location(*location, {.read = read});
  return train.has_value() ? describe_parts(*location, read, **train) : train.error().message;
}

std::string refusal_of(const std::string& path, const ReadOptions& read) {
  const auto test = open_dataset(path, "", {.train = false, .read = read});
  return test.has_value() ? "" : test.error().message;
}

TEST(ReadOptions, DefaultsOfATableAreStated) {
  const TestFolder folder;
  const std::string path = folder.write("houses.csv", houses(40)).string();
  EXPECT_EQ(facts_of(path, {}), "3 features, target price (numbers); 10 % held out for the test");
  EXPECT_EQ(facts_of(path, {.target_column = "town", .validation = 0.25}),
            "2 features, target town (2 classes); 25 % held out for the test");
  EXPECT_EQ(facts_of(path, {.target_column = "1", .target = CsvTarget::kClass}),
            "3 features, target area (40 classes); 10 % held out for the test");
}

TEST(ReadOptions, DefaultsOfOtherKindsAreStated) {
  const TestFolder folder;
  EXPECT_EQ(
      facts_of(folder.write("a.txt", std::string(400, 'a') + std::string(400, 'b')).string(), {}),
      "a text of 2 different characters; its last 10 % held out for the test");
  EXPECT_EQ(facts_of(folder.write("rows", "1 1:2 3:4\n-1 2:5\n").string(), {}),
            "3 features, 2 classes; 10 % held out for the test");
  folder.write("photos/cat/1.png", png_of(plain_image({3, 4, 6}, 9)));
  folder.write("photos/dog/1.png", png_of(plain_image({3, 4, 6}, 9)));
  EXPECT_EQ(facts_of((folder.path() / "photos").string(), {}),
            "images of 3 x 4 x 6, 2 classes; 10 % held out for the test");
}

TEST(ReadOptions, FractionReplacesTheTestPart) {
  const TestFolder folder;
  folder.write("train.csv", houses(40));
  folder.write("test.csv", houses(7));
  const std::string path = folder.path().string();
  EXPECT_EQ((*open_dataset(path, "", {.train = false}))->size(), 7U);
  const ReadOptions fraction{.validation = 0.25};
  EXPECT_EQ((*open_dataset(path, "", {.train = false, .read = fraction}))->size(), 10U);
  EXPECT_EQ((*open_dataset(path, "", {.read = fraction}))->size(), 30U);
}

TEST(ReadOptions, FileBecomesTheTestPart) {
  const TestFolder folder;
  const std::string path = folder.write("houses.csv", houses(40)).string();
  const ReadOptions read{.test = folder.write("later.csv", houses(7)).string()};
  EXPECT_EQ((*open_dataset(path, "", {.read = read}))->size(), 40U);
  EXPECT_EQ((*open_dataset(path, "", {.train = false, .read = read}))->size(), 7U);
  EXPECT_EQ(facts_of(path, read), "3 features, target price (numbers); test part " + read.test);
}

TEST(ReadOptions, TestTableMustHaveTheColumnsAndClasses) {
  const TestFolder folder;
  const std::string path = folder.write("t.csv", "a,kind\n1,x\n2,y\n").string();
  const auto refusal = [&](const std::string& content) {
    const std::string test = folder.write("v.csv", content).string();
    std::string message = refusal_of(path, {.test = test});
    return message.substr(0, test.size()) == test ? message.substr(test.size()) : message;
  };
  EXPECT_EQ(refusal("a,sort\n1,x\n"),
            ": line 1: expected the name of column 2 of the training part, 'kind', found 'sort'");
  EXPECT_EQ(refusal("a\n1\n"), ": line 1: expected the 2 columns of the training part, found 1");
  EXPECT_EQ(refusal("1,x\n"),
            ": line 1: expected the name of column 1 of the training part, 'a', found '1'");
  EXPECT_EQ(refusal("a,kind\n1,x\n1,z\n"),
            ": line 3: expected one of the 2 classes of the training part in column kind, found "
            "'z'");
}

TEST(ReadOptions, TestFolderMustHaveTheClasses) {
  const TestFolder folder;
  const std::string image = png_of(plain_image({3, 4, 4}, 9));
  for (const char* name : {"a/cat/1.png", "a/dog/1.png", "b/cat/1.png", "c/cow/1.png"})
    folder.write(name, image);
  const std::string path = (folder.path() / "a").string();
  EXPECT_EQ(refusal_of(path, {.test = (folder.path() / "b").string()}), "");
  EXPECT_NE(refusal_of(path, {.test = (folder.path() / "c").string()})
                .find("c/cow: expected one of the 2 classes of the training part, found cow"),
            std::string::npos);
}

TEST(ReadOptions, TestImagesHaveTheSizeOfTheTrainingImages) {
  const TestFolder folder;
  folder.write("a/cat/1.png", png_of(plain_image({3, 8, 8}, 9)));
  folder.write("b/cat/1.png", png_of(plain_image({1, 4, 4}, 9)));
  const auto test =
      open_dataset((folder.path() / "a").string(), "",
                   {.train = false, .read = {.test = (folder.path() / "b").string()}});
  ASSERT_TRUE(test.has_value()) << test.error().message;
  EXPECT_EQ((*test)->shape().input, (std::vector<std::int64_t>{3, 8, 8}));
}

TEST(ReadOptions, TestTextIsReadInTheAlphabetOfTheTrainingText) {
  const TestFolder folder;
  const std::string path = folder.write("t.txt", "abcabcabcabc").string();
  const std::string good = folder.write("v.txt", "cbacba").string();
  const auto test = open_dataset(path, "", {.train = false, .context = 4, .read = {.test = good}});
  ASSERT_TRUE(test.has_value()) << test.error().message;
  EXPECT_EQ(sample_of(**test, 0).input, (std::vector<float>{2, 1, 0, 2}));
  EXPECT_EQ((*open_dataset(path, "", {.context = 4, .read = {.test = good}}))->size(), 2U);
  const std::string bad = folder.write("bad.txt", "abc\xC3\xA9zabc").string();
  EXPECT_EQ(refusal_of(path, {.test = bad}),
            bad +
                ": offset 3: expected one of the 3 characters that the model was trained on, found "
                "'\xC3\xA9'");
}

TEST(ReadOptions, OptionsOfAnotherKindAreRefused) {
  const TestFolder folder;
  const std::string table = folder.write("t.csv", "1,2\n3,4\n").string();
  const std::string text = folder.write("t.txt", "a text").string();
  EXPECT_EQ(refusal_of(text, {.target_column = "a"}),
            text + " is of the kind text, and only a csv table has a target column");
  EXPECT_EQ(refusal_of(text, {.target = CsvTarget::kClass}),
            text + " is of the kind text, and only a csv table has a target column");
  EXPECT_EQ(refusal_of(table, {.level = TextLevel::kByte}),
            table + " is of the kind csv, and only a text can be read as bytes");
  EXPECT_EQ(refusal_of(table, {.test = text}),
            text + " is of the kind text, and cannot be the test part of " + table +
                ", which is of the kind csv");
  EXPECT_EQ(refusal_of(table, {.validation = 1.5}), "a validation share of 1.5: from 0 to below 1");
}

TEST(ReadOptions, PartsOfDifferentShapesAreRefused) {
  const TestFolder folder;
  const std::string large = png_of(plain_image({3, 8, 8}, 9));
  const std::string small = png_of(plain_image({3, 4, 4}, 9));
  folder.write("a/x/1.png", large);
  folder.write("b/x/1.png", small);
  const auto a = open_dataset((folder.path() / "a").string(), "", {});
  const auto b = open_dataset((folder.path() / "b").string(), "", {});
  ASSERT_TRUE(a.has_value() && b.has_value());
  EXPECT_TRUE(check_parts(**a, **a).has_value());
  EXPECT_EQ(check_parts(**a, **b).error().message,
            "the test part has samples of 3 x 4 x 4, and the training part has samples of "
            "3 x 8 x 8");
}

TEST(ReadOptions, SmallDataHoldOutAtLeastOneSample) {
  const TestFolder folder;
  const std::string path = folder.write("t.csv", "1,2\n3,4\n5,6\n").string();
  EXPECT_EQ((*open_dataset(path, "", {.train = false}))->size(), 1U);
  EXPECT_EQ((*open_dataset(path, "", {}))->size(), 2U);
}

}  // namespace
}  // namespace tally::data
