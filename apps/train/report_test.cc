#include "apps/train/report.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tally::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Parses a page with Python's HTML parser. Prints a JSON object: the faults (tags that do not
// match, duplicate attributes, external resources), the count of each tag, and all texts outside of
// style and script elements.
constexpr const char* kReader = R"py(
import collections, html.parser, json, sys
VOID = {"meta", "line", "rect", "circle", "path", "link", "br"}
class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.faults, self.texts, self.curves = [], [], [], []
        self.tags = collections.Counter()
    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        names = [name for name, _ in attributes]
        if len(set(names)) != len(names): self.faults.append(f"{tag}: attribute twice")
        for name, value in attributes:
            if name in ("src", "href"): self.faults.append(f"{tag}: {name}={value}")
            if name.startswith("on"): self.faults.append(f"{tag}: {name}")
            if name == "data-chart": self.curves.append(json.loads(value)["series"])
            is_number = name in ("d", "x", "y", "cx", "cy", "width", "height")
            if is_number and ("nan" in value or "inf" in value):
                self.faults.append(f"{tag}: {name}={value}")
        if tag == "meta": return
        self.open.append(tag)
    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()
    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag: self.faults.append(f"</{tag}> closes nothing")
    def handle_data(self, data):
        if self.open and self.open[-1] in ("style", "script"):
            if "http" in data or "url(" in data or "@import" in data:
                self.faults.append("fetches something")
        elif data.strip(): self.texts.append(data)
reader = Reader()
reader.feed(open(sys.argv[1], encoding="utf-8", errors="strict").read())
reader.close()
print(json.dumps({"faults": reader.faults + [f"<{tag}> stays open" for tag in reader.open],
                  "tags": reader.tags, "texts": reader.texts, "curves": reader.curves}))
)py";

class Report : public testing::Test {
 protected:
  Report()
      : folder_(std::filesystem::path(testing::TempDir()) / fmt::format("report.{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "reader.py") << kReader;
  }
  ~Report() override { std::filesystem::remove_all(folder_); }

  // The page as Python's parser sees it.
  nlohmann::json read(const TrainingRecord& record) {
    std::ofstream(folder_ / "report.html") << report_html(record);
    const std::string command =
        fmt::format("python3 '{0}/reader.py' '{0}/report.html' 2>&1", folder_.string());
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
    std::string output;
    std::array<char, 4096> bytes{};
    for (std::size_t got = 0; (got = std::fread(bytes.data(), 1, bytes.size(), pipe.get())) > 0;)
      output.append(bytes.data(), got);
    return nlohmann::json::parse(output);
  }

  static bool has_text(const nlohmann::json& page, const std::string& text) {
    for (const auto& found : page["texts"])
      if (found.get<std::string>().find(text) != std::string::npos) return true;
    return false;
  }

  const std::filesystem::path folder_;
};

TrainingRecord example() {
  TrainingRecord record{.recipe = "lenet",
                        .data = "fashion-mnist",
                        .outcome = "completed",
                        .workers = 2,
                        .parameters = 61706,
                        .steps = 400,
                        .epochs = 2,
                        .samples = 51200,
                        .elapsed = 20s,
                        .train_loss = 0.3125,
                        .test_loss = 0.375,
                        .accuracy = 0.875,
                        .best_accuracy = 0.89,
                        .samples_per_s = 2560,
                        .command = "tally train lenet --data 'my data'"};
  record.configuration = {{"batch per worker", "64"}, {"optimizer", "sgd:momentum=0.9"}};
  for (int i = 1; i <= 4; ++i)
    record.points.push_back({.step = 100U * i,
                             .epoch = 0.5 * i,
                             .train_loss = 2.0 / i,
                             .test_loss = 2.5 / i,
                             .accuracy = 0.8 + 0.02 * i,
                             .samples_per_s = 2500.0 + i,
                             .at_s = 5.0 * i});
  for (int rank = 0; rank < 2; ++rank)
    record.times.push_back(
        {.rank = rank, .compute = 15s, .communicate = 3s, .wait = 1s, .data = 1s});
  record.events = {{.step = 400, .text = "all epochs done"}};
  return record;
}

TEST_F(Report, PageIsWellFormedAndHasTheNumbers) {
  const nlohmann::json page = read(example());
  EXPECT_EQ(page["faults"], nlohmann::json::array());
  EXPECT_EQ(page["tags"]["figure"], 4);  // loss, accuracy, speed, times
  for (const char* text :
       {"lenet on fashion-mnist", "87.50 %", "best 89.00 %", "0.375", "training 0.3125", "20.0 s",
        "50 ms per step", "batch per worker", "sgd:momentum=0.9", "75 %", "all epochs done",
        "tally train lenet --data 'my data'"})
    EXPECT_TRUE(has_text(page, text)) << text;
  ASSERT_EQ(page["curves"].size(), 3U);
  EXPECT_EQ(page["curves"][0][0]["points"][1], nlohmann::json({200, 1, 10, 1}));  // train loss
  EXPECT_EQ(page["curves"][0][1]["points"][1], nlohmann::json({200, 1, 10, 1.25}));
  EXPECT_EQ(page["curves"][1][0]["points"][3][3], 0.88);
}

TEST_F(Report, AnswersYesOrNoHaveAnAuc) {
  TrainingRecord record = example();
  record.auc = 0.93006;
  for (RecordPoint& point : record.points)
    point.auc = 0.5 + 0.001 * static_cast<double>(point.step);
  const nlohmann::json page = read(record);
  EXPECT_EQ(page["faults"], nlohmann::json::array());
  EXPECT_EQ(page["tags"]["figure"], 5);
  for (const char* text : {"test AUC", "0.9301"}) EXPECT_TRUE(has_text(page, text)) << text;
  EXPECT_EQ(page["curves"][2][0]["points"][1][3], 0.7);
  const nlohmann::json json = nlohmann::json::parse(to_json(record).dump());
  EXPECT_EQ(json["auc"], 0.93006);
  EXPECT_EQ(json["points"][0]["auc"], 0.6);
}

TEST_F(Report, NamesLostWorkersAndTheSamplesThatTheyMissed) {
  TrainingRecord record{.recipe = "mlp", .workers = 3, .samples = 990};
  EXPECT_EQ(report_html(record).find("Lost workers"), std::string::npos);
  record.lost_workers = {{.rank = 1, .after_step = 20, .until_step = 22, .samples = 10}};
  const std::string html = report_html(record);
  for (const char* const text :
       {"Lost workers", "worker 1 was lost after step 20; up to step 22, at most 10 samples",
        "at most 10 samples, 1.00 %", "1 lost; "})
    EXPECT_NE(html.find(text), std::string::npos) << text;
}

TEST_F(Report, TheLearningRateHasACurve) {
  TrainingRecord record = example();
  for (RecordPoint& point : record.points) point.rate = 0.1;
  const nlohmann::json page = read(record);
  EXPECT_EQ(page["faults"], nlohmann::json::array());
  EXPECT_EQ(page["tags"]["figure"], 5);
  EXPECT_TRUE(has_text(page, "Learning rate"));
  EXPECT_EQ(page["curves"][3][0]["points"][0], nlohmann::json({100, 0.5, 5, 0.1}));
}

TEST_F(Report, TextsStayTexts) {
  const std::string evil = "</td><script>alert('x')</script><img src=x onerror=\"y\"> & <b>";
  TrainingRecord record = example();
  record.recipe = record.data = record.started = record.outcome = record.unit = record.final_text =
      evil;
  record.command = evil;
  record.configuration = {{evil, evil}};
  record.events = {{.step = 1, .text = evil}};
  record.times[0].host = evil;
  const nlohmann::json page = read(record);
  EXPECT_EQ(page["faults"], nlohmann::json::array());
  EXPECT_EQ(page["tags"]["script"], 1);
  EXPECT_FALSE(page["tags"].contains("img"));
  EXPECT_TRUE(has_text(page, evil));
}

TEST_F(Report, BytesThatAreNoTextDoNotBreakThePage) {
  TrainingRecord record = example();
  record.data = std::string("a\0b\xFF\x1B[31m", 9);
  EXPECT_TRUE(has_text(read(record), "a\uFFFDb\uFFFD\uFFFD[31m"));
}

TEST_F(Report, HasAShapeWithoutAnything) {
  const nlohmann::json page = read(TrainingRecord{});
  EXPECT_EQ(page["faults"], nlohmann::json::array());
  EXPECT_EQ(page["tags"]["figure"], 2);  // loss and times have no data
  EXPECT_EQ(page["curves"].size(), 0U);
}

TEST_F(Report, DrawsOnePoint) {
  TrainingRecord record;
  record.points = {{.step = 5, .epoch = 1, .train_loss = 0.5, .accuracy = 1.0}};
  const nlohmann::json page = read(record);
  EXPECT_EQ(page["faults"], nlohmann::json::array());
  EXPECT_EQ(page["tags"]["circle"], 2);
}

TEST_F(Report, SaysWhereALossWasNotFinite) {
  TrainingRecord record = example();
  record.points[2].train_loss = kNan;
  record.points[3].train_loss = kInfinity;
  record.points[1].test_loss = -kInfinity;
  record.train_loss = record.test_loss = kNan;
  record.accuracy = kNan;
  record.samples_per_s = kInfinity;
  const nlohmann::json page = read(record);
  EXPECT_EQ(page["faults"], nlohmann::json::array());
  EXPECT_TRUE(has_text(page, "train: 2 values are not finite, first at step 300 (NaN)"));
  EXPECT_TRUE(has_text(page, "test: one value is not finite, first at step 200 (-infinity)"));
}

TEST_F(Report, DrawsWhenNoLossIsFinite) {
  TrainingRecord record;
  record.points = {{.step = 1, .train_loss = kNan}, {.step = 2, .train_loss = kNan}};
  EXPECT_EQ(read(record)["faults"], nlohmann::json::array());
}

TEST_F(Report, DrawsExtremesOfDoubles) {
  TrainingRecord record;
  for (const double value : {1.7e308, -1.7e308, 5e-324, 0.0, -0.0})
    record.points.push_back({.step = record.points.size(),
                             .train_loss = value,
                             .accuracy = value,
                             .samples_per_s = value});
  EXPECT_EQ(read(record)["faults"], nlohmann::json::array());
}

TEST_F(Report, HasABarForEachOf64WorkersAndSaysIfThereAreMore) {
  TrainingRecord record = example();
  record.times.clear();
  constexpr int kLegends = 4 + 4;  // entries: four curves and four kinds of time
  for (int rank = 0; rank < 64; ++rank)
    record.times.push_back(
        {.rank = rank, .compute = 1s, .communicate = 1s, .wait = 1s, .data = 1s});
  nlohmann::json page = read(record);
  EXPECT_EQ(page["tags"]["i"], 64 * 4 + kLegends);
  EXPECT_FALSE(has_text(page, "The first 64"));
  record.times.push_back({.rank = 64, .compute = 1s});
  page = read(record);
  EXPECT_EQ(page["tags"]["i"], 64 * 4 + kLegends);
  EXPECT_TRUE(has_text(page, "The first 64 of 65 workers."));
}

TEST_F(Report, ThinsLongCurvesButKeepsTheirPeak) {
  TrainingRecord record;
  for (int i = 0; i < 100000; ++i)
    record.points.push_back({.step = 1U + i, .train_loss = i == 77777 ? 9.5 : 1.0});
  const std::string html = report_html(record);
  EXPECT_LT(html.size(), 200000U);
  const nlohmann::json page = read(record);
  EXPECT_THAT(page["curves"][0].dump(), HasSubstr(",9.5]"));
}

TEST(ReportJson, ComesBackAsItWas) {
  TrainingRecord record = example();
  record.points[1].test_loss = kNan;
  record.points[1].accuracy.reset();
  const nlohmann::json json = nlohmann::json::parse(to_json(record).dump());
  EXPECT_EQ(json["recipe"], "lenet");
  EXPECT_EQ(json["parameters"], 61706);
  EXPECT_EQ(json["elapsed_s"], 20.0);
  EXPECT_EQ(json["accuracy"], 0.875);
  EXPECT_EQ(json["configuration"]["optimizer"], "sgd:momentum=0.9");
  ASSERT_EQ(json["points"].size(), 4U);
  EXPECT_EQ(json["points"][2]["train_loss"], 2.0 / 3);
  EXPECT_TRUE(json["points"][1]["test_loss"].is_null());
  EXPECT_FALSE(json["points"][1].contains("accuracy"));
  EXPECT_EQ(json["times"][1]["communicate_s"], 3.0);
  EXPECT_EQ(json["events"][0]["text"], "all epochs done");
}

}  // namespace
}  // namespace tally::app
