#include "apps/tally/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::app {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(TorchProgramWords, AreThoseOfTrainAndItsBenchmarks) {
  EXPECT_THAT(torch_program_words({"train", "lenet", "--batch", "3"}),
              Optional(ElementsAre("train", "lenet", "--batch", "3")));
  EXPECT_THAT(torch_program_words({"train"}), Optional(ElementsAre("train")));
  EXPECT_THAT(torch_program_words({"bench", "train", "--ranks", "2"}),
              Optional(ElementsAre("bench", "--ranks", "2")));
  EXPECT_THAT(torch_program_words({"bench", "compress", "--steps", "2"}),
              Optional(ElementsAre("bench-compress", "--steps", "2")));
}

TEST(TorchProgramWords, AreNoneOfOtherCommands) {
  using Words = std::vector<std::string>;
  for (const Words& words :
       {Words{}, Words{"run", "train"}, Words{"bench"}, Words{"bench", "allreduce"},
        Words{"train", "word2vec", "--seed", "2"}, Words{"--help", "train"}})
    EXPECT_EQ(torch_program_words(words), std::nullopt);
}

TEST(TorchProgramWords, AskForTheListOfRecipesWithoutOne) {
  EXPECT_TRUE(lists_recipes({"train"}));
  EXPECT_TRUE(lists_recipes({"train", "--list"}));
  EXPECT_TRUE(lists_recipes({"train", "--help"}));
  EXPECT_FALSE(lists_recipes({"train", "lenet", "--help"}));
  EXPECT_FALSE(lists_recipes({"bench", "--help"}));
  EXPECT_FALSE(lists_recipes({}));
}

}  // namespace
}  // namespace tally::app
