// The texts of options that the documents show are accepted, and the errors that they show are
// those of the parsers. tools/check_documents.py checks commands and options.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/plan.h"
#include "tally/optimizer.h"
#include "tally/rate_schedule.h"

namespace tally::app {
namespace {

using testing::HasSubstr;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The text with single spaces, because documents break long lines.
std::string on_one_line(const std::string& text) {
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

std::vector<std::filesystem::path> all_documents() {
  std::vector<std::filesystem::path> files;
  const std::filesystem::path root = TALLY_SOURCE_FOLDER;
  for (const char* top : {"docs", "recipes", "bench", "examples"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / top))
      if (entry.path().extension() == ".md") files.push_back(entry.path());
  files.push_back(root / "README.md");
  return files;
}

// Returns why the parser refuses a text; empty: it accepts it.
std::string plan_error(const std::string& text) {
  const auto plan = plan::parse_plan(text);
  return plan ? "" : plan.error().message;
}
std::string schedule_error(const std::string& text) {
  const auto schedule = RateSchedule::parse(text, 10000);
  return schedule ? "" : schedule.error().message;
}
std::string optimizer_error(const std::string& text) {
  const auto optimizer = parse_optimizer(text);
  return optimizer ? "" : optimizer.error().message;
}

TEST(Documents, ShowTextsThatTheParsersAccept) {
  struct Option {
    const char* name;
    std::function<std::string(const std::string&)> error;
    int shown = 0;
  };
  std::vector<Option> options = {{"plan", plan_error}, {"schedule", schedule_error}};
  for (const auto& file : all_documents()) {
    const std::string text = text_of(file);
    for (Option& option : options) {
      // --plan "a b", --plan a or --plan=a. Words in capitals and brackets stand for a value.
      const std::regex pattern(std::string("--") + option.name +
                               R"re([ =](?:"([^"]+)"|([a-z][^\s`"'\]]*)))re");
      for (auto found = std::sregex_iterator(text.begin(), text.end(), pattern);
           found != std::sregex_iterator(); ++found) {
        const std::string shown = (*found)[1].matched ? (*found)[1] : (*found)[2];
        if (std::regex_search(shown, std::regex("[A-Z]{2}"))) continue;
        EXPECT_EQ(option.error(on_one_line(shown)), "") << file << ": " << found->str();
        ++option.shown;
      }
    }
  }
  for (const Option& option : options) EXPECT_GT(option.shown, 0) << option.name;
}

TEST(Documents, ShowTheErrorsOfTheParsers) {
  const std::string optimizers =
      on_one_line(text_of(std::filesystem::path(TALLY_SOURCE_FOLDER) / "docs/optimizers.md"));
  const std::string policies =
      on_one_line(text_of(std::filesystem::path(TALLY_SOURCE_FOLDER) / "docs/policies.md"));
  for (const char* text : {"adma", "sgd:rat=0.1", "adam:beta2=1"})
    EXPECT_THAT(optimizers, HasSubstr(optimizer_error(text))) << text;
  const auto schedule = RateSchedule::parse("cosine:warmup=100", 100);
  ASSERT_FALSE(schedule.has_value());
  EXPECT_THAT(optimizers, HasSubstr(schedule.error().message));
  for (const char* text : {"codec=topk:2", "update=subset:0", "data=partitoin"}) {
    EXPECT_NE(plan_error(text), "") << text;
    EXPECT_THAT(optimizers, HasSubstr(plan_error(text))) << text;
  }
  for (const char* text : {"update=ssp:3", "update=backup:1 stale=scale", "update=ssp"}) {
    EXPECT_NE(plan_error(text), "") << text;
    EXPECT_THAT(policies, HasSubstr(plan_error(text))) << text;
  }
}

}  // namespace
}  // namespace tally::app
