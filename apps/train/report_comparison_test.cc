#include "apps/train/report_comparison.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tally::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

TrainingRecord run_of(double loss) {
  TrainingRecord record{.recipe = "lenet",
                        .data = "digits",
                        .outcome = "completed",
                        .workers = 2,
                        .steps = 20,
                        .epochs = 2,
                        .samples = 40,
                        .elapsed = 1500ms,
                        .test_loss = loss,
                        .accuracy = 1 - loss,
                        .samples_per_s = 26.5};
  record.command = "tally train lenet --rate '0.1'";
  record.configuration = {{"rate", "0.1"}, {"plan", "home=group update=bsp"}, {"seed", "1"}};
  for (std::uint64_t step = 10; step <= 20; step += 10)
    record.points.push_back({.step = step,
                             .epoch = static_cast<double>(step) / 10,
                             .train_loss = loss * 2,
                             .test_loss = loss,
                             .accuracy = 1 - loss,
                             .rate = 0.1,
                             .at_s = static_cast<double>(step) / 20});
  record.times = {{.rank = 0, .host = "a", .compute = 1s, .wait = 500ms}};
  record.events = {{.step = 20, .text = "checkpoint"}};
  record.lost_workers = {{.rank = 2, .after_step = 7, .until_step = 9, .samples = 12}};
  record.staleness = {30, 10};
  record.dropped_gradients = 3;
  record.model_memory_bytes = 4096;
  record.steps_per_s = 13.25;
  record.final_text = "the end";
  return record;
}

std::string line_of(const TrainingRecord& record) { return to_json(record).dump() + "\n"; }

class RecordFile : public testing::Test {
 protected:
  RecordFile()
      : folder_(std::filesystem::path(testing::TempDir()) / fmt::format("records.{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~RecordFile() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  std::string error_of(const std::filesystem::path& file) const {
    const auto runs = read_records(file);
    return runs ? "" : runs.error().message;
  }

  const std::filesystem::path folder_;
};

TEST_F(RecordFile, ARecordComesBackWhole) {
  TrainingRecord record = run_of(0.25);
  record.points[0].train_loss = std::nan("");
  record.majority_accuracy = 0.1;
  record.divergence = "the accuracy was 80 %";
  const auto runs = read_records(write("a.json", line_of(record)));
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  ASSERT_EQ(runs->size(), 1U);
  EXPECT_EQ(runs->front().name, "a");
  EXPECT_EQ(line_of(runs->front().record), line_of(record));
}

TEST_F(RecordFile, EachLineIsARun) {
  const auto runs = read_records(write("a.json", line_of(run_of(0.5)) + "\n" + line_of(run_of(1))));
  ASSERT_TRUE(runs.has_value());
  ASSERT_EQ(runs->size(), 2U);
  EXPECT_EQ((*runs)[0].name, "a:1");
  EXPECT_EQ((*runs)[1].name, "a:3");
}

TEST_F(RecordFile, RefusesWhatIsNoRecordAndSaysWhereAndWhy) {
  const std::string good = line_of(run_of(1));
  auto with = [](const char* member, nlohmann::ordered_json value) {
    nlohmann::ordered_json json = to_json(run_of(1));
    json[member] = std::move(value);
    return json.dump();
  };
  const std::vector<std::pair<std::string, const char*>> table = {
      {good + "tally train\n", "line 2: this is no JSON"},
      {"[1]", "line 1: no record of a training: expected a JSON object"},
      {"{\"recipe\": \"word2vec\"}", "expected \"steps\""},
      {with("recipe", 5), "expected \"recipe\" as a text"},
      {with("steps", -1), "expected \"steps\" as a count"},
      {with("workers", 1e30), "expected \"workers\" as a count"},
      {with("accuracy", "x"), "expected \"accuracy\" as a number"},
      {with("elapsed_s", 1e300), "expected \"elapsed_s\" as seconds"},
      {with("elapsed_s", nullptr), "expected \"elapsed_s\" as seconds"},
      {with("points", 1), "expected \"points\" as an array"},
      {with("points", {1}), "expected a JSON object"},
      {with("configuration", 1), "expected \"configuration\" as an object"},
      {with("staleness", {-1}), "expected \"staleness\" as counts"},
      {"\n", ": no records"},
  };
  for (const auto& [text, why] : table) {
    EXPECT_THAT(error_of(write("a.json", text)), HasSubstr(why)) << text;
    EXPECT_THAT(error_of(write("a.json", text)), HasSubstr("tally train --json FILE"));
  }
  EXPECT_THAT(error_of(folder_ / "absent"), HasSubstr("absent: No such file or directory"));
  EXPECT_THAT(error_of(folder_), HasSubstr("this is a folder"));
}

TEST(Comparison, ShowsWhichSettingsDiffer) {
  std::vector<NamedRecord> runs = {{"a", run_of(0.5)}, {"b", run_of(0.25)}};
  runs[1].record.configuration = {
      {"rate", "0.1"}, {"plan", "home=group update=asp"}, {"seed", "1"}, {"clip", "<2>"}};
  const std::string page = comparison_html(runs);
  EXPECT_THAT(page, HasSubstr("lenet on digits: 2 runs"));
  EXPECT_THAT(page, HasSubstr("<td class=\"text\">home=group update=bsp</td>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"text\">home=group <mark>update=asp</mark></td>"));
  EXPECT_THAT(page, HasSubstr("<mark>&lt;2&gt;</mark>"));
  // Equal settings are in a table of their own.
  EXPECT_THAT(page, HasSubstr("<tr><th scope=\"row\">rate</th><td>0.1</td></tr>"));
  EXPECT_THAT(page, Not(HasSubstr("class=\"differs\">rate")));
  // The better run is shown as such.
  EXPECT_THAT(page, HasSubstr("<td class=\"best\">75.00 %</td><td class=\"best\">0.25</td>"));
  EXPECT_THAT(page, HasSubstr("tally train lenet --rate &#39;0.1&#39;"));
}

TEST(Comparison, MarksNoBestValueIfTheDataDiffer) {
  std::vector<NamedRecord> runs = {{"a", run_of(0.5)}, {"b", run_of(0.25)}};
  for (NamedRecord& run : runs)
    run.record.configuration = {{"read as", "table of " + run.name}, {"rate", run.name}};
  const std::string page = comparison_html(runs);
  EXPECT_THAT(page, Not(HasSubstr("class=\"best\"")));
  EXPECT_THAT(page, HasSubstr("The data differ, so no value is the best one."));
  // The long description is the last column.
  EXPECT_THAT(page, HasSubstr("class=\"differs\">read as</th></tr>"));
  runs[1].record.configuration = runs[0].record.configuration;
  EXPECT_THAT(comparison_html(runs), HasSubstr("class=\"best\""));
  runs[1].record.data = "other digits";
  EXPECT_THAT(comparison_html(runs), Not(HasSubstr("class=\"best\"")));
}

TEST(Comparison, EachChartHasACurveOfEachRun) {
  std::vector<NamedRecord> runs;
  for (int i = 0; i < 9; ++i) runs.push_back({fmt::format("run {}", i), run_of(0.5)});
  runs[1].record.recipe = "mlp";
  for (RecordPoint& point : runs[2].record.points) point.step *= 100;
  const std::string page = comparison_html(runs);
  EXPECT_THAT(page, HasSubstr("<h1>9 runs</h1>"));
  for (const char* title : {"Training loss", "Test loss", "Accuracy", "Learning rate"}) {
    const std::size_t begin = page.find(fmt::format("<figcaption>{}", title));
    ASSERT_NE(begin, std::string::npos) << title;
    const std::string chart = page.substr(begin, page.find("</figure>", begin) - begin);
    for (int i = 0; i < 8; ++i)
      EXPECT_THAT(chart, HasSubstr(fmt::format("curve run{}\"", i))) << title;
    EXPECT_THAT(chart, HasSubstr("curve run0 dashed\""));
  }
  EXPECT_THAT(page, Not(HasSubstr("AUC</figcaption>")));
  // The second run makes a hundred times as many steps in an epoch.
  EXPECT_THAT(page, Not(HasSubstr("class=\"epochline\"")));
  EXPECT_THAT(comparison_html({runs[0], runs[1]}), HasSubstr("class=\"epochline\""));
}

}  // namespace
}  // namespace tally::app
