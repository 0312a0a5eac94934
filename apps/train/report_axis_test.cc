
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/train/report_parts.h"

namespace tally::app {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::SizeIs;
using namespace std::chrono_literals;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

TEST(ReportAxis, HasRoundTicksAroundTheValues) {
  struct Case {
    std::vector<double> values;
    std::vector<std::string> labels;
  };
  const std::vector<Case> cases = {
      {{0.13, 0.87}, {"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}},
      {{0.85, 0.905}, {"0.85", "0.86", "0.87", "0.88", "0.89", "0.90", "0.91"}},
      {{0, 4690}, {"0", "1000", "2000", "3000", "4000", "5000"}},
      {{3, 3}, {"1.5", "2.0", "2.5", "3.0", "3.5", "4.0", "4.5"}},
      {{}, {"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}},
      {{kNotANumber, 0, 1}, {"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}},
      {{-2, 1}, {"-2.0", "-1.5", "-1.0", "-0.5", "0.0", "0.5", "1.0"}},
      {{1e9, 1.5e9}, {"1e+09", "1.1e+09", "1.2e+09", "1.3e+09", "1.4e+09", "1.5e+09"}},
  };
  for (const Case& c : cases) EXPECT_EQ(tick_labels(axis_around(c.values, 6, false)), c.labels);
}

TEST(ReportAxis, IsLogarithmicWhereValuesSpanPowersOfTen) {
  const std::vector<double> values = {2.5, 0.004};
  const Axis axis = axis_around(values, 6, true);
  EXPECT_TRUE(axis.logarithmic);
  EXPECT_THAT(tick_labels(axis), ElementsAre("0.001", "0.01", "0.1", "1", "10"));
  EXPECT_DOUBLE_EQ(axis.place(0.1), 0.5);
  EXPECT_LT(axis.place(0), 0);
  EXPECT_FALSE(axis_around(values, 6, false).logarithmic);
  const std::vector<double> with_zero = {0, 1000};
  EXPECT_FALSE(axis_around(with_zero, 6, true).logarithmic);
  const std::vector<double> far = {1e-30, 1};
  EXPECT_THAT(tick_labels(axis_around(far, 6, true)), SizeIs(::testing::Le(8U)));
}

TEST(ReportAxis, ThinnedKeepsEndsPeaksAndWhatIsNotFinite) {
  std::vector<double> values(10000, 1.0);
  values[1234] = 7;
  values[4321] = -7;
  values[8000] = kNotANumber;
  const auto kept = thinned(values, 400);
  EXPECT_LE(kept.size(), 400U);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  for (const std::size_t index : {0U, 1234U, 4321U, 8000U, 9999U})
    EXPECT_THAT(kept, Contains(index));
  EXPECT_THAT(thinned(std::vector<double>{1, 2}, 400), ElementsAre(0U, 1U));
}

TEST(ReportText, NumbersAreShort) {
  EXPECT_EQ(number_text(0.32451), "0.3245");
  EXPECT_EQ(number_text(9999.4), "9999");
  EXPECT_EQ(number_text(45230.6), "45231");
  EXPECT_EQ(number_text(-45230.6), "-45231");
  EXPECT_EQ(number_text(1234567.2), "1234567");
  EXPECT_EQ(number_text(1.5e9), "1.5e+09");
  EXPECT_EQ(number_text(-0.0), "0");
  EXPECT_EQ(number_text(kNotANumber), "NaN");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1234567), "1\u202F234\u202F567");
  EXPECT_EQ(count_text(12345678), "12.35\u202FM");
  EXPECT_EQ(count_text(2.5e9), "2.5\u202FG");
  EXPECT_EQ(percent_text(0.8934), "89.34 %");
}

TEST(ReportText, TimesHaveTheUnitThatFits) {
  EXPECT_EQ(time_text(0s), "0 ms");
  EXPECT_EQ(time_text(1500us), "1.5 ms");
  EXPECT_EQ(time_text(12340ms), "12.3 s");
  EXPECT_EQ(time_text(59960ms), "1 min 0 s");
  EXPECT_EQ(time_text(245s), "4 min 5 s");
  EXPECT_EQ(time_text(7620s), "2 h 7 min");
}

TEST(ReportText, EscapesWhatHtmlWouldRead) {
  EXPECT_EQ(escape_html("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(escape_html("Grüße \u202F€ 🙂"), "Grüße \u202F€ 🙂");
  EXPECT_EQ(escape_html("\xC0\xAF\xED\xA0\x80\xE2\x82"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
}

}  // namespace
}  // namespace tally::app
