#include "apps/train/train_state.h"

#include <gtest/gtest.h>

namespace tally::app {
namespace {

TEST(TrainState, ComesBackBesideTheTrainersOwn) {
  const TrainState state{.recipe = "lenet",
                         .data = "some \"data\"",
                         .read = {.target = "price", .classes = true, .validation = "0.2"},
                         .seed = ~std::uint64_t{0},
                         .position = {.epoch = 3, .samples = 128},
                         .control = {.best_loss = 0.25, .without_improvement = 2}};
  const auto text = with_train_state(R"({"steps": 12})", state);
  ASSERT_TRUE(text.has_value());
  EXPECT_NE(text->find("\"steps\":12"), std::string::npos);
  const auto back = train_state_of(*text);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->recipe, "lenet");
  EXPECT_EQ(back->data, state.data);
  EXPECT_EQ(back->read, state.read);
  EXPECT_EQ(back->seed, state.seed);
  EXPECT_EQ(back->position, state.position);
  EXPECT_EQ(back->control.best_loss, 0.25);
  EXPECT_EQ(back->control.best_accuracy, std::nullopt);
  EXPECT_EQ(back->control.without_improvement, 2U);
}

TEST(TrainState, HasThePositionOfEveryWorker) {
  TrainState state{.recipe = "mlp",
                   .position = {.epoch = 3, .samples = 10},
                   .positions = {{.epoch = 3, .samples = 40}, {.epoch = 2, .samples = 90}}};
  const auto text = with_train_state("{}", state);
  ASSERT_TRUE(text.has_value());
  const auto back = train_state_of(*text);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->position, state.position);
  EXPECT_EQ(back->positions, state.positions);
  // One position for all, as earlier versions saved it.
  state.positions.clear();
  const auto one = train_state_of(*with_train_state("{}", state));
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->positions, (std::vector<data::Position>{{.epoch = 3, .samples = 10}}));
}

TEST(TrainState, RefusesWhatIsNotOne) {
  const std::vector<std::pair<const char*, const char*>> table = {
      {"", "not a JSON object"},
      {"[1]", "not a JSON object"},
      {"{}", "not written by `tally train`"},
      {R"({"train": 1})", "not written by `tally train`"},
      {R"({"train": {"data": "x"}})", "no recipe"},
      {R"({"train": {"recipe": "r", "data": "x", "seed": -1}})", "no seed"},
      {R"({"train": {"recipe": "r", "data": "x", "seed": 1, "epoch": 0, "samples": "x"}})",
       "no samples"},
      {R"({"train": {"recipe": "r", "data": "x", "seed": 1, "epoch": 0, "samples": 5}})",
       "no course"},
      {R"({"train": {"recipe": "r", "data": "x", "seed": 1, "epoch": 0, "samples": 5,
                     "positions": 7}})",
       "not an array"},
      {R"({"train": {"recipe": "r", "data": "x", "seed": 1, "epoch": 0, "samples": 5,
                     "positions": [{"epoch": 1, "samples": -1}]}})",
       "a position without"},
      {R"({"train": {"recipe": "r", "data": "x", "seed": 1, "epoch": 0, "samples": 5,
                     "read": {"target": 7}}})",
       "wrong types"},
  };
  for (const auto& [text, what] : table) {
    const auto state = train_state_of(text);
    ASSERT_FALSE(state.has_value()) << text;
    EXPECT_EQ(state.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(state.error().message.find(what), std::string::npos) << state.error().message;
  }
  EXPECT_FALSE(with_train_state("nothing", {}).has_value());
}

}  // namespace
}  // namespace tally::app
