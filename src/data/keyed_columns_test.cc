#include "data/keyed_columns.h"

#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/csv.h"
#include "data/keyed_open.h"
#include "data/open_like.h"
#include "data/read_options.h"
#include "data/test_files.h"

namespace tally::data {
namespace {

Result<KeyedRows> keyed(const std::string& text, const std::string& target = "",
                        double validation = 0, bool train = true) {
  return read_keyed_columns(
      {bytes_of(text), "t.csv"}, nullptr,
      {.split = {.validation = validation, .train = train}, .target_column = target});
}

// The entry of a field in a row.
struct Entry {
  std::int64_t key = 0;
  float value = 0;
  friend bool operator==(const Entry&, const Entry&) = default;
};
constexpr Entry kEmpty{kNoKey, 0};

Entry entry(const KeyedRows& rows, std::size_t row, const std::string& field) {
  const auto& fields = rows.encoding.fields;
  const auto at =
      static_cast<std::size_t>(std::find(fields.begin(), fields.end(), field) - fields.begin());
  EXPECT_LT(at, fields.size()) << field;
  return {rows.keys[rows.starts[row] + at], rows.values[rows.starts[row] + at]};
}

Entry category(const std::string& field, const std::string& text) {
  return {key_of(field, text), 1};
}

TEST(KeyedColumns, TextsAreCategoriesOfTheirColumn) {
  const auto rows = keyed(
      "town,\"k\xc3\xb6rt,e\",sold\nUlm,\" \xc3\xa9\xc3\xa9n \",no\n"
      "?,Ulm,yes\n");
  ASSERT_TRUE(rows) << rows.error().message;
  const std::string second = "k\xc3\xb6rt,e";
  EXPECT_EQ(rows->encoding.fields, (std::vector<std::string>{"town", second}));
  EXPECT_EQ(rows->classes, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(rows->labels, (std::vector<std::uint8_t>{0, 1}));
  EXPECT_EQ(entry(*rows, 0, "town"), category("town", "Ulm"));
  EXPECT_EQ(entry(*rows, 0, second), category(second, "\xc3\xa9\xc3\xa9n"));
  EXPECT_EQ(entry(*rows, 1, "town"), kEmpty);
  EXPECT_NE(entry(*rows, 1, second), category("town", "Ulm"));
}

TEST(KeyedColumns, WorkersOfAHostShareItsMemory) {
  const auto rows = read_keyed_columns({bytes_of("town,x,y\nUlm,1.5,no\nBonn,2,yes\n"), "t.csv"},
                                       nullptr, {.readers = 2000000000});
  ASSERT_FALSE(rows.has_value());
  EXPECT_EQ(rows.error().code, ErrorCode::kExhausted);
  EXPECT_NE(rows.error().message.find("2 rows of 3 slots need 208B, more than half of the memory "
                                      "that each of 2000000000 workers on this host may"),
            std::string::npos)
      << rows.error().message;
}

TEST(KeyedColumns, NumbersHaveABucketAndAScaledValue) {
  std::string text = "x,y\n";
  for (int i = 0; i < 160; ++i) text += fmt::format("{}.5,{}\n", i, i % 2 == 0 ? "a" : "b");
  const auto rows = keyed(text);
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->encoding.fields, (std::vector<std::string>{"x", "x value"}));
  EXPECT_EQ(rows->encoding.columns[0].bounds.size(), kBuckets - 1);
  std::map<std::int64_t, int> count;
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < 160; ++i) {
    ++count[entry(*rows, i, "x").key];
    const Entry value = entry(*rows, i, "x value");
    EXPECT_EQ(value.key, key_of("x value", ""));
    sum += value.value;
    squares += double(value.value) * value.value;
  }
  EXPECT_EQ(count.size(), kBuckets);
  for (const auto& [key, samples] : count) EXPECT_EQ(samples, 10) << key;
  EXPECT_NEAR(sum / 160, 0, 1e-5);
  EXPECT_NEAR(squares / 160, 1, 1e-5);
  EXPECT_EQ(entry(*rows, 0, "x"), category("x", "0"));
  EXPECT_EQ(entry(*rows, 10, "x"), category("x", "1"));
  EXPECT_EQ(entry(*rows, 159, "x"), category("x", "15"));
}

// Codes and identifiers are written as numbers, too.
TEST(KeyedColumns, WholeNumbersThatRepeatAreCategories) {
  std::string text = "user,amount,y\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("{},{},{}\n", 7 + i % 20, i, i % 2);
  const auto rows = keyed(text);
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->encoding.columns[0].kind, KeyedColumn::Kind::kWhole);
  EXPECT_EQ(rows->encoding.columns[1].kind, KeyedColumn::Kind::kNumber);
  EXPECT_EQ(entry(*rows, 3, "user"), category("user", "10"));
  // The same number in another notation is the same category; 7.5 is none.
  const auto like = read_keyed_columns_like(
      {bytes_of(std::string("amount,user\n1,1.0e1\n1,+10\n1,7.5\n1,1e30\n")), "n.csv"},
      rows->encoding, rows->classes, /*needs_target=*/false);
  ASSERT_TRUE(like) << like.error().message;
  EXPECT_EQ(entry(*like, 0, "user"), category("user", "10"));
  EXPECT_EQ(entry(*like, 1, "user"), category("user", "10"));
  EXPECT_EQ(entry(*like, 2, "user").key, kNoKey);
  EXPECT_NE(entry(*like, 2, "user value").key, kNoKey);
  EXPECT_EQ(entry(*like, 3, "user").key, kNoKey);
  EXPECT_EQ(entry(*like, 3, "user value").value, static_cast<float>(kMostDeviations));
}

TEST(KeyedColumns, MissingNumbersLeaveBothSlotsEmpty) {
  const auto rows = keyed("x,y\n1.5,a\n,b\nNA,a\n2.5,b\n");
  ASSERT_TRUE(rows) << rows.error().message;
  for (const std::size_t row : {1U, 2U})
    for (const char* const field : {"x", "x value"}) EXPECT_EQ(entry(*rows, row, field), kEmpty);
  EXPECT_EQ(rows->encoding.columns[0].mean, 2);
}

TEST(KeyedColumns, TargetHasTwoClassesOfTextOrNumber) {
  const std::string text = "a,b,c,n\nx,u,1,1\ny,v,2,0\nz,u,2.5,1\n";
  EXPECT_EQ(keyed(text)->classes, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(keyed(text)->labels, (std::vector<std::uint8_t>{1, 0, 1}));
  EXPECT_EQ(keyed(text, "b")->classes, (std::vector<std::string>{"u", "v"}));
  EXPECT_EQ(keyed(text, "2")->labels, (std::vector<std::uint8_t>{0, 1, 0}));
  EXPECT_EQ(keyed(text, "a").error().message,
            "t.csv: column a has 3 classes ('x', 'y', 'z'), expected two: --target names another "
            "column, and mlp takes any number of classes");
  EXPECT_EQ(keyed("a,b\n1,x\n2,x\n").error().message,
            "t.csv: column b has 1 class ('x'), expected two: --target names another column, and "
            "mlp takes any number of classes");
  EXPECT_EQ(keyed(text, "d").error().message, "t.csv: no column d (columns: a, b, c, n)");
  std::string many = "a,b\n";
  for (std::size_t i = 0; i < 2 * kMaxCsvCategories; ++i) many += fmt::format("{0},{0}\n", i);
  EXPECT_NE(keyed(many).error().message.find("has at least 1024 classes ('0', '1', '2', "),
            std::string::npos)
      << keyed(many).error().message;
}

TEST(KeyedColumns, DamageIsRefusedAsInOtherTables) {
  const std::pair<std::string, std::string> cases[] = {
      {"a,b,a\n1,2,3\n", "columns 1 and 3 have the same name 'a'"},
      {"a,b\n1,x\n\"2,5\",y\n", "line 3: expected a number with a decimal point in column a"},
      {"a,b\n1,x\nmany,y\n", "line 3: expected a number in column a, found 'many'"},
      {"a,b\n1,x\n2\n", "line 3: expected a row of 2 fields, found 1"},
      {"a,b\n1,x\n2,?\n", "line 3: expected a target in column b"},
      {"a,b\n", "expected a row of values"},
      {"b\nx\ny\n", "no column besides the target b"},
  };
  for (const auto& [text, says] : cases) {
    const auto rows = keyed(text);
    ASSERT_FALSE(rows) << text;
    EXPECT_NE(rows.error().message.find(says), std::string::npos) << rows.error().message;
  }
}

TEST(KeyedColumns, ManyCategoriesNeedNoList) {
  std::string text = "id,y\n";
  for (int i = 0; i < 3000; ++i) text += fmt::format("user{},{}\n", i, i % 2);
  const auto rows = keyed(text);
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(entry(*rows, 2999, "id"), category("id", "user2999"));
}

// The test file is encoded by the training file: it has other numbers, and unknown categories.
TEST(KeyedColumns, TestFileIsEncodedByTheTrainingFileAndForATrainedModel) {
  const TestFolder folder;
  const auto train = folder.write_gzip("train.csv.gz", "n,t,y\n1.5,a,no\n2.5,b,yes\n3.5,a,no\n");
  folder.write_gzip("test.csv.gz", "n,t,y\n9.5,c,yes\n,a,no\n");
  const ReadOptions read;
  const auto location = locate_keyed_parts(train.string(), "", read);
  ASSERT_TRUE(location) << location.error().message;
  const auto whole = open_keyed(*location, {.train = true}, read);
  const auto test = open_keyed(*location, {.train = false}, read);
  ASSERT_TRUE(whole && test) << (whole ? test : whole).error().message;
  EXPECT_EQ((*test)->size(), 2U);
  const Preprocessing like = (*whole)->preprocessing();
  EXPECT_EQ(describe_parts(*location, read, **whole),
            "2 columns as 3 slots of keys, target y (no or yes); test part " +
                (folder.path() / "test.csv.gz").string());
  // Other columns, in another order, and no target.
  const auto other = folder.write("new.csv", "t,id,n\nc,1,9.5\na,2,\n");
  const auto found = locate_like(other.string(), "", like);
  ASSERT_TRUE(found) << found.error().message;
  const auto opened = open_like(*found, like, Targets::kIgnored);
  ASSERT_TRUE(opened) << opened.error().message;
  for (std::uint64_t i = 0; i < 2; ++i)
    EXPECT_EQ(sample_of(**opened, i).input, sample_of(**test, i).input) << i;
  const auto judged = open_like(*found, like, Targets::kNeeded);
  ASSERT_FALSE(judged);
  EXPECT_NE(judged.error().message.find("the model needs the column y"), std::string::npos);
  const auto unknown = folder.write("test.csv.gz", gzip_of("n,t,y\n1,a,maybe\n"));
  EXPECT_EQ(open_keyed(*location, {.train = false}, read).error().message,
            unknown.string() +
                ": line 2: expected one of the 2 classes of the training part in "
                "column y, found 'maybe'");
}

TEST(KeyedColumns, HeldOutRowsDoNotDecideTheScale) {
  std::string text = "x,y\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("{}.25,{}\n", i * i, i % 2);
  const auto train = keyed(text, "", 0.2, true);
  const auto test = keyed(text, "", 0.2, false);
  ASSERT_TRUE(train && test);
  EXPECT_EQ(train->size(), 80U);
  EXPECT_EQ(test->size(), 20U);
  EXPECT_EQ(train->encoding.columns[0].mean, test->encoding.columns[0].mean);
  EXPECT_EQ(train->encoding.columns[0].bounds, test->encoding.columns[0].bounds);
  double sum = 0;
  for (std::size_t i = 0; i < 80; ++i) sum += entry(*train, i, "x value").value;
  EXPECT_NEAR(sum / 80, 0, 1e-5);
}

TEST(KeyedColumns, TargetMakesAKnownTableOneOfYourOwn) {
  const TestFolder folder;
  const auto file = folder.write("ratings.csv", "userId,movieId,rating\n1,2,3\n1,3,5\n2,3,5\n");
  const auto known = locate_keyed_parts(file.string(), "", {});
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(known->kind, Kind::kMovieLens);
  const ReadOptions read{.target_column = "rating"};
  const auto location = locate_keyed_parts(folder.path().string(), "", read);
  ASSERT_TRUE(location) << location.error().message;
  EXPECT_EQ(location->kind, Kind::kCsv);
  const auto own = open_keyed(*location, {.validation = 0}, read);
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ((*own)->classes(), (std::vector<std::string>{"3", "5"}));
  EXPECT_EQ((*own)->fields(),
            (std::vector<std::string>{"userId", "userId value", "movieId", "movieId value"}));
  const auto sparse = folder.write("sparse", "1 1:1\n-1 2:1\n");
  EXPECT_NE(locate_keyed_parts(sparse.string(), "", read)
                .error()
                .message.find("only a csv table has a target column"),
            std::string::npos);
}

TEST(KeyedColumns, FolderOfATableIsFoundAsForOtherRecipes) {
  const TestFolder folder;
  folder.write("clicks.csv", "a,y\n1,no\n2,yes\n");
  folder.write("val.csv", "a,y\n3,no\n");
  const auto location = locate_keyed(folder.path().string(), "");
  ASSERT_TRUE(location) << location.error().message;
  EXPECT_EQ(location->train[0].filename(), "clicks.csv");
  ASSERT_EQ(location->test.size(), 1U);
  EXPECT_EQ(location->test[0].filename(), "val.csv");
}

TEST(KeyedColumns, ModelOfAKnownTableRefusesATableOfYourOwn) {
  const TestFolder folder;
  const auto file = folder.write("ratings.csv", "userId,movieId,rating\n1,2,3\n1,3,5\n");
  const auto location = locate_keyed(file.string(), "");
  ASSERT_TRUE(location);
  const Preprocessing like = (*open_keyed(*location, {.validation = 0}))->preprocessing();
  const auto other = folder.write("own.csv", "user,movie\n1,2\n");
  const auto found = locate_like(other.string(), "", like);
  ASSERT_TRUE(found) << found.error().message;
  const auto opened = open_like(*found, like, Targets::kIgnored);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("trained on one with the fields user, movie"),
            std::string::npos)
      << opened.error().message;
}

}  // namespace
}  // namespace tally::data
