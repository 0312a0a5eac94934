#include "apps/train/option_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Steps = std::vector<std::uint64_t>;

TEST(ChooseOptimizer, AnotherKindOfOptimizerBringsItsOwnRate) {
  const UsualOptimizer usual{"momentum:decay=5e-4", 0.05};
  const auto rate = [&usual](const std::string& text, std::optional<double> given) {
    const auto chosen = choose_optimizer(text, given, usual);
    return chosen ? chosen->rate : -1;
  };
  EXPECT_EQ(rate("momentum:decay=5e-4", std::nullopt), 0.05);
  EXPECT_EQ(rate("momentum", std::nullopt), 0.05);
  EXPECT_EQ(rate("sgd", std::nullopt), 0.05);
  EXPECT_EQ(rate("nesterov:momentum=0.8", std::nullopt), 0.05);
  EXPECT_EQ(rate("nesterov:rate=0.1", std::nullopt), 0.1);
  EXPECT_EQ(rate("adam", std::nullopt), 0.001);
  EXPECT_EQ(rate("adam", 0.2), 0.2);
  EXPECT_EQ(rate("adam:rate=0.1", std::nullopt), 0.1);
  EXPECT_EQ(rate("momentum:rate=0.1", std::nullopt), 0.1);
  EXPECT_EQ(rate("adam:rate=0.1", 0.1), 0.1);
  EXPECT_EQ(rate("adagrad:rate_decay=0.5", std::nullopt), 0.01);
}

TEST(ChooseOptimizer, RefusesTwoRates) {
  const auto chosen = choose_optimizer("adam:beta1=0.8,rate=0.1", 0.2, {"sgd", 0.1});
  ASSERT_FALSE(chosen.has_value());
  EXPECT_THAT(chosen.error().message, HasSubstr("--rate 0.2 is another learning rate"));
}

TEST(WithRate, NamesTheRateThatIsTheDefault) {
  EXPECT_EQ(with_rate(*parse_optimizer("adam")), "adam:rate=0.001");
  EXPECT_EQ(with_rate(*parse_optimizer("adam:rate=0.5")), "adam:rate=0.5");
  EXPECT_EQ(with_rate(*parse_optimizer("momentum:decay=0.5")), "momentum:rate=0.1,decay=0.5");
}

TEST(RecordChoice, HasAFileAndSettings) {
  const auto plain = parse_record_choice("runs/g.safetensors");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->file, "runs/g.safetensors");
  EXPECT_EQ(plain->every, 0U);
  EXPECT_EQ(plain->steps, 4U);
  const auto whole = parse_record_choice("g,steps=7,every=50");
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->file, "g");
  EXPECT_EQ(whole->every, 50U);
  EXPECT_EQ(whole->steps, 7U);
}

TEST(RecordChoice, RefusesWhatItDoesNotKnow) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "name is missing"},         {",every=2", "name is missing"},
      {"g,evry=2", "'evry=2'"},        {"g,", "neither"},
      {"g,every", "every=:"},          {"g,every=0", "every=0"},
      {"g,every=2x", "every=2x"},      {"g,steps=-1", "steps=-1"},
      {"g,steps=10001", "1 to 10000"}, {"g,steps=99999999999999999999", "steps=9999"}};
  for (const auto& [text, says] : cases) {
    const auto choice = parse_record_choice(text);
    ASSERT_FALSE(choice.has_value()) << text;
    EXPECT_EQ(choice.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(choice.error().message, HasSubstr(says));
  }
}

TEST(RecordedSteps, AreSpreadOverTheTrainingUnlessToldOtherwise) {
  EXPECT_EQ(*recorded_steps({.file = "g"}, 200), (Steps{50, 100, 150, 200}));
  EXPECT_EQ(*recorded_steps({.file = "g"}, 10), (Steps{2, 5, 7, 10}));
  EXPECT_EQ(*recorded_steps({.file = "g"}, 3), (Steps{1, 2, 3}));
  EXPECT_EQ(*recorded_steps({.file = "g", .steps = 1}, 9), (Steps{9}));
  EXPECT_EQ(*recorded_steps({.file = "g", .every = 50}, 1000), (Steps{50, 100, 150, 200}));
  EXPECT_EQ(*recorded_steps({.file = "g", .every = 50, .steps = 9}, 120), (Steps{50, 100}));
  const auto none = recorded_steps({.file = "g", .every = 50}, 49);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("only 49 steps"));
}

TEST(RecordSize, IsBounded) {
  const std::uint64_t most = kMaxRecordBytes / 4;
  EXPECT_TRUE(check_record_size(4, most / 4).has_value());
  EXPECT_TRUE(check_record_size(4, 0).has_value());
  const auto refused = check_record_size(4, most / 3);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("steps=3 would fit"));
  EXPECT_FALSE(check_record_size(1 << 20, std::uint64_t{1} << 50).has_value());
}

}  // namespace
}  // namespace tally::app
