#include "data/csv_survey.h"

#include <gtest/gtest.h>

#include "data/test_files.h"

namespace tally::data {
namespace {

std::string described(const std::string& content, const CsvOptions& options = {}) {
  const TestFolder folder;
  const auto facts = survey_csv(folder.write("t.csv", content), options);
  return facts ? describe(*facts) : facts.error().message;
}

TEST(CsvSurvey, NamesColumnsWithKindTargetAndMissingValues) {
  EXPECT_EQ(described("rooms,town,area,price\n1,Ulm,,5\n2,Bonn,7,6\n,Ulm,NA,7\n"),
            "  columns   rooms number (1 missing), town 2 texts, area number (2 missing), price "
            "number = target\n");
  EXPECT_EQ(described("rooms,town\n1,Ulm\n2,\n3,Bonn\n", {.target_column = "rooms"}),
            "  columns   rooms number = target, town 2 texts (1 missing)\n");
}

TEST(CsvSurvey, TellsThatThereAreNoNamesAndWarnsOfEmptyColumns) {
  EXPECT_EQ(described("1,,5\n2,,6\n"),
            "  names     none, for the first row has numbers: columns are named 1, 2, ...\n"
            "  columns   1 number, 2 number (2 missing), 3 number = target\n"
            "  warning   no value in column 2\n");
}

TEST(CsvSurvey, ListsTheFirstColumnsOfAWideTable) {
  std::string names;
  std::string values;
  for (int i = 0; i < 30; ++i) {
    names += "c" + std::to_string(i) + (i < 29 ? "," : "\n");
    values += i < 29 ? "1," : "2\n";
  }
  const std::string text = described(names + values);
  EXPECT_NE(text.find("c19 number, 10 more, c29 number = target\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace tally::data
