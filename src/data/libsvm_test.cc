#include "data/libsvm.h"

#include <gtest/gtest.h>

#include "data/test_files.h"

namespace tally::data {
namespace {

using LibsvmValues = std::vector<float>;

TEST(Libsvm, RowsAreGivenOutDense) {
  const TestFolder folder;
  const auto file = folder.write("t", "+1 2:0.5 4:-1\n-1 1:3 # a comment\n\n+1\n");
  const auto dataset = open_libsvm({file}, {}, {.validation = 0});
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message;
  EXPECT_EQ((*dataset)->size(), 3U);
  EXPECT_EQ((*dataset)->classes(), (std::vector<std::string>{"-1", "1"}));
  EXPECT_EQ(sample_of(**dataset, 0).input, (LibsvmValues{0, 0.5, 0, -1}));
  EXPECT_EQ(sample_of(**dataset, 0).target, LibsvmValues{1});
  EXPECT_EQ(sample_of(**dataset, 1).input, (LibsvmValues{3, 0, 0, 0}));
  EXPECT_EQ(sample_of(**dataset, 1).target, LibsvmValues{0});
  EXPECT_EQ(sample_of(**dataset, 2).input, (LibsvmValues{0, 0, 0, 0}));
}

TEST(Libsvm, LabelsThatAreNotWholeAreValues) {
  const TestFolder folder;
  const auto file = folder.write("t", "1.5 1:1\n2 1:2\n");
  const auto dataset = open_libsvm({file}, {}, {.validation = 0});
  ASSERT_TRUE(dataset.has_value());
  EXPECT_TRUE((*dataset)->classes().empty());
  EXPECT_EQ((*dataset)->shape().target_type, DataType::kFloat32);
  EXPECT_EQ(sample_of(**dataset, 0).target, LibsvmValues{1.5});
}

TEST(Libsvm, BothPartsHaveTheFeaturesOfBoth) {
  const TestFolder folder;
  const auto train = folder.write("a", "1 2:1\n2 1:1\n");
  const auto test = folder.write_gzip("a.t.gz", "2 5:1\n");
  for (const bool wanted : {true, false}) {
    const auto dataset = open_libsvm({train}, {test}, {.train = wanted});
    ASSERT_TRUE(dataset.has_value()) << dataset.error().message;
    EXPECT_EQ((*dataset)->shape().input, std::vector<std::int64_t>{5});
    EXPECT_EQ((*dataset)->size(), wanted ? 2U : 1U);
  }
  const auto strange = folder.write("b.t", "3 1:1\n");
  const auto refused = open_libsvm({train}, {strange}, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            strange.string() + ": row 1: expected a label of " + train.string() + ", found 3");
}

TEST(Libsvm, EveryFaultIsNamedWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "f: offset 0: expected a row, found the end of the file"},
      {"1\n2\n", "f: offset 4: expected a row with a value, found the end of the file"},
      {"1 1:1\nx 1:1\n", "f: offset 6: expected a number as label, found 'x'"},
      {"1 1:1 3:x\n",
       "f: offset 6: expected index:value with an index from 1 to 4194304, found '3:x'"},
      {"1 0:1\n", "f: offset 2: expected index:value with an index from 1 to 4194304, found '0:1'"},
      {"1 4194305:1\n",
       "f: offset 2: expected index:value with an index from 1 to 4194304, found '4194305:1'"},
      {"1 99999999999:1\n",
       "f: offset 2: expected index:value with an index from 1 to 4194304, found '99999999999:1'"},
      {"1 12\n", "f: offset 2: expected index:value with an index from 1 to 4194304, found '12'"},
      {"1 2:1 2:1\n", "f: offset 6: expected an index above 2, found '2:1'"},
      {"nan 1:1\n", "f: offset 0: expected a number as label, found 'nan'"},
  };
  for (const auto& [text, message] : cases) {
    const auto rows = parse_libsvm(bytes_of(text), "f");
    ASSERT_FALSE(rows.has_value()) << text;
    EXPECT_EQ(rows.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(rows.error().message, message);
  }
}

TEST(Libsvm, IsKnownByItsFirstLine) {
  EXPECT_TRUE(looks_like_libsvm("+1 3:0.5 7:1\n-1 ..."));
  EXPECT_TRUE(looks_like_libsvm("-1 3:1"));
  EXPECT_FALSE(looks_like_libsvm("1 2 3\n"));
  EXPECT_FALSE(looks_like_libsvm("1,2,3\n"));
  EXPECT_FALSE(looks_like_libsvm("10 AM: meet\n"));
  EXPECT_FALSE(looks_like_libsvm(""));
}

}  // namespace
}  // namespace tally::data
