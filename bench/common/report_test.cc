#include "bench/common/report.h"

#include <filesystem>
#include <sstream>

#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/cpu.h"
#include "base/file.h"
#include "bench/common/rounds.h"
#include "bench/common/words.h"

namespace tally::bench {
namespace {

TEST(Publish, AppendsALineOfJsonForEachAfterTheFactsOfTheHost) {
  const std::string file = (std::filesystem::temp_directory_path() /
                            fmt::format("tally_report_test_{}.jsonl", ::getpid()))
                               .string();
  EXPECT_EQ(publish({.lines = {{{"a", 1}}}}, "codec", "c", file), 0);
  EXPECT_EQ(publish({.lines = {{{"a", 2}}}, .failed = true}, "codec", "c", file), 1);
  std::istringstream lines(file_contents(file).value_or(""));
  std::filesystem::remove(file);
  int count = 0;
  for (std::string text; std::getline(lines, text);) {
    const Json line = Json::parse(text);
    EXPECT_EQ(text.find("{\"bench\":\"codec\",\"commit\":\"c\",\"host\":\""), 0U) << text;
    EXPECT_EQ(line["cores"], usable_cores());
    EXPECT_EQ(line["a"], ++count);
  }
  EXPECT_EQ(count, 2);
}

TEST(Publish, AFileThatCannotBeWrittenIsAFailure) {
  EXPECT_EQ(publish({}, "codec", "c", "/no/such/folder/file"), 1);
  EXPECT_EQ(publish({}, "codec", "c", ""), 0);
}

TEST(Targets, AreMetFromTheWantedFigureOn) {
  EXPECT_EQ(targets_text("asked", 8, {{"a", 0.5, 0.45, "%"}, {"b", 3, 3}}),
            "\nasked       wanted      seen\n"
            "a             50 %      45 %  missed\n"
            "b            3.00x     3.00x  met\n");
  EXPECT_EQ(targets_text("asked", 8, {}), "");
}

TEST(Rounds, EachBeginsWithAnotherContender) {
  std::vector<std::size_t> turns;
  for (const int round : {0, 1, 5})
    take_turns(round, 3, [&](std::size_t contender) { turns.push_back(contender); });
  EXPECT_EQ(turns, (std::vector<std::size_t>{0, 1, 2, 1, 2, 0, 2, 0, 1}));
}

TEST(Words, AValueIsOneWord) {
  EXPECT_EQ(words("run -n {} -- {}", 4, "a b"),
            (std::vector<std::string>{"run", "-n", "4", "--", "a b"}));
}

}  // namespace
}  // namespace tally::bench
