#include "apps/tally/config_file.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tally::app {
namespace {

Result<std::vector<ConfigLine>> read(const std::string& text) {
  std::istringstream input(text);
  return read_config(input);
}

TEST(ConfigFile, AValueIsTheRestOfItsLine) {
  const auto lines = read(
      "# the first experiment\n"
      "plan = update=bsp codec=topk:0.01\n"
      "\n"
      "--optimizer=adamw:beta2=0.95,decay=0.1  # as in the paper\r\n"
      "no-progress\n"
      "data=\" a # b \" # quoted\n"
      "servers=\n");
  ASSERT_TRUE(lines);
  ASSERT_EQ(lines->size(), 5U);
  const ConfigLine& plan = (*lines)[0];
  EXPECT_EQ(plan.number, 2);
  EXPECT_EQ(plan.name, "plan");
  EXPECT_EQ(plan.value, "update=bsp codec=topk:0.01");
  EXPECT_EQ((*lines)[1].number, 4);
  EXPECT_EQ((*lines)[1].name, "optimizer");
  EXPECT_EQ((*lines)[1].value, "adamw:beta2=0.95,decay=0.1");
  EXPECT_EQ((*lines)[2].name, "no-progress");
  EXPECT_EQ((*lines)[2].value, std::nullopt);
  EXPECT_EQ((*lines)[3].value, " a # b ");
  EXPECT_EQ((*lines)[4].value, "");
}

TEST(ConfigFile, AnErrorNamesTheLine) {
  struct Case {
    std::string text, says;
  };
  const Case cases[] = {{"batch=3\n=4\n", "2: '=4' is not of the form name=value"},
                        {"[section]\n", "1: '[section]' is not of the form name=value"},
                        {"batch=3\nrate=1\nbatch=4\n", "3: batch is given twice; see line 1"}};
  for (const Case& c : cases) {
    const auto lines = read(c.text);
    ASSERT_FALSE(lines) << c.text;
    EXPECT_EQ(lines.error().message, c.says);
  }
}

}  // namespace
}  // namespace tally::app
