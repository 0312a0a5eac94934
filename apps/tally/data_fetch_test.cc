#include "apps/tally/data_fetch.h"

#include <gtest/gtest.h>

#include "apps/tally/data_survey.h"
#include "data/csv.h"

namespace tally::app {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Test vectors from FIPS 180-2.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_of({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of(bytes_of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(DataAdvice, SaysWhatToDo) {
  const struct {
    const char* tool;
    const char* output;
    const char* part;
  } cases[] = {
      {"npm", "npm ERR! code ENOTFOUND", "the network cannot be reached"},
      {"npm", "npm ERR! code EAI_AGAIN", "the network cannot be reached"},
      {"npm", "npm ERR! code ENOSPC", "the disk is full"},
      {"tar", "tar: data.txt: Cannot write: No space left on device", "the disk is full"},
      {"npm", "npm ERR! code E404", "does not have this version"},
      {"apt-get", "E: Unable to locate package x", "run `apt-get update` as root first"},
      {"apt-get", "E: Failed to fetch", "the network cannot be reached"},
      {"npm", "npm ERR! code EACCES", "may not be written"},
  };
  for (const auto& c : cases)
    EXPECT_NE(advice_for(c.tool, c.output).find(c.part), std::string::npos) << c.output;
  EXPECT_EQ(advice_for("npm", "something else"), "");
}

TEST(DataConvert, ReviewsBecomeLines) {
  const auto reviews = parse_reviews(R"([{"t":"good\nfilm","s":1},{"s":0,"t":"bad \u00e9"}])", "r");
  ASSERT_TRUE(reviews.has_value()) << reviews.error().message;
  EXPECT_EQ(reviews->texts, "good film\nbad \xC3\xA9\n");
  EXPECT_EQ(reviews->labels, "1\n0\n");
}

TEST(DataConvert, ReviewsThatAreNoneAreCorrupt) {
  for (const char* bad :
       {"", "[", R"([{"t":"a"}])", R"([{"t":"a","s":2}])", R"([{"t":"a","s":"1"}])", R"([{"x":1}])",
        R"([{"t":"a","s":1}] more)", R"([null])"}) {
    const auto reviews = parse_reviews(bad, "r");
    ASSERT_FALSE(reviews.has_value()) << bad;
    EXPECT_EQ(reviews.error().code, ErrorCode::kCorrupt);
  }
}

TEST(DataConvert, ImageThatDoesNotFitItsLabelsIsCorrupt) {
  const std::vector<int> labels{1, 2};
  EXPECT_EQ(cifar_records(bytes_of("no image"), "p", labels).error().code, ErrorCode::kCorrupt);
}

TEST(DataSurvey, CountsLabelsAndDescribes) {
  const std::string text = "a,b,kind\n1,2,x\n2,3,y\n3,4,x\n";
  const auto table = data::make_csv({bytes_of(text), "t"}, nullptr, {.split = {.validation = 0}});
  ASSERT_TRUE(table.has_value());
  const auto part = survey(**table, "training");
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->samples, 3U);
  EXPECT_EQ(part->histogram, (std::vector<std::uint64_t>{2, 1}));
  PartSurvey test = *part;
  test.name = "test";
  test.samples = 1;
  test.histogram = {1};
  EXPECT_EQ(describe(data::Kind::kCsv, {*part, test}),
            "  training  3 samples, input float32 2, target label\n"
            "  test      1 sample, input float32 2, target label\n"
            "  classes   2\n"
            "  label  class    training        test\n"
            "      0  x               2           1\n"
            "      1  y               1           0\n"
            "  warning   one sample only of class y: is that a typing error?\n");
}

TEST(DataSurvey, ValuesHaveARange) {
  const std::string text = "a,y\n1,-2\n2,4\n3,7\n";
  const auto table = data::make_csv({bytes_of(text), "t"}, nullptr, {.split = {.validation = 0}});
  ASSERT_TRUE(table.has_value());
  const auto part = survey(**table, "training");
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(describe(data::Kind::kCsv, {*part}),
            "  training  3 samples, input float32 1, target float32 from -2 to 7, mean 3\n");
}

}  // namespace
}  // namespace tally::app
