#include "base/option_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tally {
namespace {

TEST(OptionText, HasANameAndOptionsInOrder) {
  const auto plain = parse_option_text("cosine");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->name, "cosine");
  EXPECT_TRUE(plain->options.empty());

  const auto full = parse_option_text("step:every=30,factor=0.1");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->name, "step");
  ASSERT_EQ(full->options.size(), 2U);
  EXPECT_EQ(full->options[0].key, "every");
  EXPECT_EQ(full->options[0].value, "30");
  EXPECT_EQ(full->options[1].key, "factor");
  EXPECT_EQ(full->options[1].value, "0.1");
}

TEST(OptionText, WhatIsNotBuiltLikeThatIsNamed) {
  struct Case {
    std::string_view text, message;
  };
  constexpr Case kCases[] = {{"", "'' does not begin with a name"},
                             {":a=1", "':a=1' does not begin with a name"},
                             {"x:", "'' is not of the form key=value"},
                             {"x:a", "'a' is not of the form key=value"},
                             {"x:a=", "'a=' is not of the form key=value"},
                             {"x:=1", "'=1' is not of the form key=value"},
                             {"x:a=1,", "'' is not of the form key=value"},
                             {"x:a=1,a=2", "'a' is given twice in 'x:a=1,a=2'"}};
  for (const Case& c : kCases) {
    const auto result = parse_option_text(c.text);
    ASSERT_FALSE(result) << c.text;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(result.error().message, c.message);
  }
}

TEST(OptionText, NumbersAreWholeAndFinite) {
  EXPECT_EQ(*parse_number("0.1"), 0.1);
  EXPECT_EQ(*parse_number("-3"), -3.0);
  EXPECT_EQ(*parse_number("1e-8"), 1e-8);
  for (const std::string_view text :
       {"", "x", "1x", " 1", "1 ", "inf", "nan", "1e999", "+1", "0x1"}) {
    EXPECT_FALSE(parse_number(text)) << text;
  }
}

TEST(OptionText, CountsAreWholeNumbersFromZero) {
  EXPECT_EQ(*parse_count("0"), 0U);
  EXPECT_EQ(*parse_count("1e4"), 10000U);
  EXPECT_EQ(*parse_count("9007199254740992"), 9007199254740992U);
  for (const std::string_view text : {"", "-1", "0.5", "1e16", "many"}) {
    const auto result = parse_count(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().message, fmt::format("'{}' is not a whole number from 0", text));
  }
}

}  // namespace
}  // namespace tally
