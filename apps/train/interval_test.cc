#include "apps/train/loop_control.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tally::app {
namespace {

TEST(Interval, IsReadInStepsAndEpochs) {
  const std::vector<std::pair<const char*, Interval>> table = {
      {"500", {.steps = 500}},    {"500 steps", {.steps = 500}}, {"1step", {.steps = 1}},
      {"1 epoch", {.epochs = 1}}, {"2epochs", {.epochs = 2}},    {"never", {}},
  };
  for (const auto& [text, expected] : table) {
    const auto interval = parse_interval(text);
    ASSERT_TRUE(interval.has_value()) << text;
    EXPECT_EQ(*interval, expected) << text;
  }
}

TEST(Interval, RefusesWhatIsNone) {
  for (const char* text : {"", "0", "-1", "1.5", "x", "2 weeks", "1  epoch", "epoch",
                           "99999999999999999999", "5 steps "}) {
    const auto interval = parse_interval(text);
    ASSERT_FALSE(interval.has_value()) << text;
    EXPECT_NE(interval.error().message.find(fmt::format("'{}'", text)), std::string::npos);
  }
}

TEST(Interval, IsDueWhenAMultipleIsReachedOrPassed) {
  struct Row {
    Interval interval;
    Moment before;
    Moment after;
    bool due;
  };
  const std::vector<Row> table = {
      {{.steps = 3}, {2, 0}, {3, 0}, true},   {{.steps = 3}, {3, 0}, {4, 0}, false},
      {{.steps = 1}, {0, 0}, {1, 0}, true},   {{.epochs = 1}, {4, 0}, {5, 1}, true},
      {{.epochs = 2}, {4, 0}, {5, 1}, false}, {{.epochs = 2}, {9, 1}, {10, 2}, true},
      {{.epochs = 2}, {9, 1}, {10, 3}, true}, {{}, {0, 0}, {1, 1}, false},
  };
  for (const Row& row : table)
    EXPECT_EQ(is_due(row.interval, row.before, row.after), row.due)
        << row.interval.steps << " steps or " << row.interval.epochs << " epochs from "
        << row.before.steps << "/" << row.before.epochs;
}

}  // namespace
}  // namespace tally::app
