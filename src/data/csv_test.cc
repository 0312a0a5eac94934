#include "data/csv.h"

#include <set>

#include <gtest/gtest.h>

#include "data/test_files.h"

namespace tally::data {
namespace {

using Values = std::vector<float>;

Result<std::unique_ptr<Dataset>> make(const std::string& text, CsvOptions options = {},
                                      const std::string* test = nullptr) {
  const NamedBytes train{bytes_of(text), "t.csv"};
  if (test == nullptr) return make_csv(train, nullptr, options);
  const NamedBytes other{bytes_of(*test), "test.csv"};
  return make_csv(train, &other, options);
}

CsvOptions all_as_they_are() { return {.split = {.validation = 0}, .standardise = false}; }

TEST(Csv, NumbersWithAHeader) {
  const auto table = make("a,b,y\n1,2.5,10\n-3,4e1,20\n", all_as_they_are());
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_EQ((*table)->size(), 2U);
  EXPECT_EQ((*table)->shape().input, std::vector<std::int64_t>{2});
  EXPECT_EQ((*table)->shape().target_type, DataType::kFloat32);
  EXPECT_EQ(sample_of(**table, 0).input, (Values{1, 2.5}));
  EXPECT_EQ(sample_of(**table, 1).input, (Values{-3, 40}));
  EXPECT_EQ(sample_of(**table, 1).target, Values{20});
}

TEST(Csv, NoHeaderOtherSeparatorsAndLineEnds) {
  for (const char* text : {"1,2,3\n4,5,6\n", "1;2;3\r\n4;5;6\r\n", "1\t2\t3\n\n4\t5\t6",
                           "\xEF\xBB\xBF"
                           "1 , 2,3\n4,5,6"}) {
    const auto table = make(text, all_as_they_are());
    ASSERT_TRUE(table.has_value()) << text << table.error().message;
    EXPECT_EQ(sample_of(**table, 0).input, (Values{1, 2})) << text;
    EXPECT_EQ(sample_of(**table, 1).target, Values{6}) << text;
  }
}

TEST(Csv, WorkersOfAHostShareItsMemory) {
  CsvOptions options = all_as_they_are();
  options.readers = 2000000000;
  const auto table = make("a,b,y\n1,2.5,10\n-3,4e1,20\n", options);
  ASSERT_FALSE(table.has_value());
  EXPECT_NE(table.error().message.find("2 rows of 2 features need 32B, more than half of the "
                                       "memory that each of 2000000000 workers on this host may"),
            std::string::npos)
      << table.error().message;
}

TEST(Csv, TargetByNameOrNumber) {
  CsvOptions options = all_as_they_are();
  for (const char* column : {"y", "1"}) {
    options.target_column = column;
    const auto table = make("y,a\n7,1\n8,2\n", options);
    ASSERT_TRUE(table.has_value());
    EXPECT_EQ(sample_of(**table, 1).target, Values{8});
    EXPECT_EQ(sample_of(**table, 1).input, Values{2});
  }
  options.target_column = "z";
  const auto missing = make("y,a\n7,1\n", options);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(missing.error().message, "t.csv: no column z (columns: y, a)");
  options.target_column = "prise";
  EXPECT_EQ(make("price,a\n7,1\n", options).error().message,
            "t.csv: no column prise; did you mean price? (columns: price, a)");
}

TEST(Csv, QuotesHoldAnything) {
  const auto table = make("\"a, or so\",kind\n\"1\",\"x\"\"y\"\n 2 , \"line\nend\" \n3,plain\n",
                          all_as_they_are());
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_EQ((*table)->classes(), (std::vector<std::string>{"line\nend", "plain", "x\"y"}));
  EXPECT_EQ(sample_of(**table, 0).target, Values{2});
  EXPECT_EQ(sample_of(**table, 1).target, Values{0});
}

TEST(Csv, TextColumnsBecomeOneFeaturePerText) {
  const auto table = make("n,where,y\n1,sea,1\n2,land,2\n3,,3\n", all_as_they_are());
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_EQ(sample_of(**table, 0).input, (Values{1, 0, 1}));
  EXPECT_EQ(sample_of(**table, 1).input, (Values{2, 1, 0}));
  EXPECT_EQ(sample_of(**table, 2).input, (Values{3, 0, 0}));
}

TEST(Csv, NumbersMayBeClasses) {
  CsvOptions options = all_as_they_are();
  options.target = CsvTarget::kClass;
  const auto table = make("1,10\n2,9\n3,10\n", options);
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ((*table)->classes(), (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ((*table)->shape().target_type, DataType::kInt64);
  EXPECT_EQ(sample_of(**table, 0).target, Values{1});
  options.target = CsvTarget::kNumber;
  EXPECT_FALSE(make("1,a\n2,b\n", options).has_value());
}

TEST(Csv, MissingValuesBecomeTheMean) {
  const auto table = make("a,y\n1,1\n,1\nNA,1\n3,1\n?,1\n", all_as_they_are());
  ASSERT_TRUE(table.has_value()) << table.error().message;
  for (const std::uint64_t i : {1U, 2U, 4U}) EXPECT_EQ(sample_of(**table, i).input, Values{2});
}

TEST(Csv, StandardisedByTheTrainingPart) {
  std::string text = "a,same,y\n";
  for (int i = 0; i < 100; ++i)
    text += std::to_string(1000000 + i) + ",5," + std::to_string(i) + "\n";
  const CsvOptions train_options{.split = {.validation = 0.2}};
  CsvOptions test_options = train_options;
  test_options.split.train = false;
  const auto train = make(text, train_options);
  const auto held_out = make(text, test_options);
  ASSERT_TRUE(train.has_value());
  ASSERT_TRUE(held_out.has_value());
  ASSERT_EQ((*train)->size(), 80U);
  ASSERT_EQ((*held_out)->size(), 20U);
  double sum = 0;
  double squares = 0;
  std::set<float> targets;
  for (std::uint64_t i = 0; i < 80; ++i) {
    const Sample sample = sample_of(**train, i);
    sum += sample.input[0];
    squares += double(sample.input[0]) * sample.input[0];
    EXPECT_EQ(sample.input[1], 0.0F);
    targets.insert(sample.target[0]);
  }
  EXPECT_NEAR(sum / 80, 0, 1e-4);
  EXPECT_NEAR(squares / 80, 1, 1e-3);
  // Both parts lie on the same line, so the training part standardises the held-out part, too. Each
  // row is in exactly one part.
  const Sample a = sample_of(**train, 0);
  const Sample b = sample_of(**train, 79);
  const float slope = (b.input[0] - a.input[0]) / (b.target[0] - a.target[0]);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Sample sample = sample_of(**held_out, i);
    EXPECT_NEAR(sample.input[0], a.input[0] + slope * (sample.target[0] - a.target[0]), 1e-3);
    targets.insert(sample.target[0]);
  }
  EXPECT_EQ(targets.size(), 100U);
}

TEST(Csv, TestFileIsReadByTheTrainingFilesColumns) {
  const std::string train = "a,kind\n1,x\n3,y\n";
  const std::string test = "a,kind\n5,y\n";
  CsvOptions options{.split = {.train = false}};
  const auto table = make(train, options, &test);
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_EQ(sample_of(**table, 0).input, Values{3});  // (5 - 2) / 1
  EXPECT_EQ(sample_of(**table, 0).target, Values{1});
  const std::string strange = "a,kind\n5,z\n";
  const auto unknown = make(train, options, &strange);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().message,
            "test.csv: line 2: expected one of the 2 classes of the training part in column "
            "kind, found 'z'");
}

TEST(Csv, EveryFaultIsNamedWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "t.csv: line 1: expected a table, found an empty file"},
      {"a,b\n", "t.csv: line 2: expected a row of values, found the end of the file"},
      {"a,b\n1,2\n3\n", "t.csv: line 3: expected a row of 2 fields, found 1"},
      {"a,b\n1,2\n3,4,5\n", "t.csv: line 3: expected a row of 2 fields, found 3"},
      {"a,b\n1,2\nx,4\n", "t.csv: line 3: expected a number in column a, found 'x'"},
      {"a,b\n1,2\n1e39,4\n", "t.csv: line 3: expected a number in column a, found '1e39'"},
      {"a,b\n1,2\n3,oops\n", "t.csv: line 3: expected a number in column b, found 'oops'"},
      {"a,b\n1,2\n3,\n",
       "t.csv: line 3: expected a target in column b, found ''; the last column is the target "
       "unless --target names another"},
      {"a,b\n1,\"2\n",
       "t.csv: line 2: expected a closing quote for this one, found the end of the file"},
      {"a,b\n1,\"2\"3\n",
       "t.csv: line 2: expected ',' or the end of the line after a quote, found '3'"},
  };
  for (const auto& [text, message] : cases) {
    const auto table = make(text, all_as_they_are());
    ASSERT_FALSE(table.has_value()) << text;
    EXPECT_EQ(table.error().code, ErrorCode::kCorrupt) << text;
    EXPECT_EQ(table.error().message, message);
  }
}

TEST(Csv, TooManyTextsAreRefused) {
  std::string text = "a,y\n";
  for (int i = 0; i < 2000; ++i) text += "name" + std::to_string(i) + ",1\n";
  const auto table = make(text, all_as_they_are());
  ASSERT_FALSE(table.has_value());
  EXPECT_EQ(
      table.error().message,
      "t.csv: line 1026: expected at most 1024 different texts in column a, found 'name1024'; "
      "remove column a (column 1) if it identifies rows; for a target of two classes, logistic, "
      "widedeep and deepfm read it as keys");
}

TEST(Csv, DecimalCommasAreNoCategories) {
  for (const char* text : {"a;y\n1;2,5\n2;3,5\n", "a;y\n2,5;1\n", "a,y\n\"1,234.5\",1\n"}) {
    const auto table = make(text, all_as_they_are());
    ASSERT_FALSE(table.has_value()) << text;
    EXPECT_NE(
        table.error().message.find("line 2: expected a number with a decimal point in column"),
        std::string::npos)
        << table.error().message;
  }
  EXPECT_TRUE(make("a,y\n\"Ulm, 3\",1\n", all_as_they_are()).has_value());
}

TEST(Csv, AnotherEncodingThanUtf8IsRefusedWithItsLine) {
  for (const char* text : {"gr\xF6\xDF"
                           "e,y\n1,2\n",
                           "town,y\nK\xF6ln,2\n"}) {
    const auto table = make(text, all_as_they_are());
    ASSERT_FALSE(table.has_value());
    EXPECT_EQ(table.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(table.error().message.find("iconv -f latin1 -t utf-8"), std::string::npos);
  }
  const auto second = make("town,y\nKiel,1\n\"K\xF6ln\",2\n", all_as_they_are());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().message.rfind("t.csv: line 3: ", 0), 0U) << second.error().message;
  EXPECT_TRUE(make("town,y\nK\xC3\xB6ln,1\nUlm,2\n", all_as_they_are()).has_value());
}

TEST(Csv, AMissingTargetNamesTheOptionOnlyIfTheColumnIsTheDefault) {
  const std::string text = "a,note\n1,2\n2,\n";
  const auto usual = make(text, all_as_they_are());
  ASSERT_FALSE(usual.has_value());
  EXPECT_EQ(usual.error().message,
            "t.csv: line 3: expected a target in column note, found ''; the last column is the "
            "target unless --target names another");
  CsvOptions named = all_as_they_are();
  named.target_column = "note";
  const auto chosen = make(text, named);
  ASSERT_FALSE(chosen.has_value());
  EXPECT_EQ(chosen.error().message, "t.csv: line 3: expected a target in column note, found ''");
}

}  // namespace
}  // namespace tally::data
