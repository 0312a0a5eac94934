#include "recipes/word2vec/vocabulary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "base/rng.h"

namespace tally::word2vec {
namespace {

using testing::ElementsAre;

std::span<const std::byte> word_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(WordTable, FindsWhatWasAddedAndNothingElse) {
  WordTable table;
  std::map<std::string, std::uint32_t> expected;
  Rng rng(3);
  for (int i = 0; i < 20000; ++i) {
    const std::string word = fmt::format("w{}", rng.below(9000));
    const auto number = static_cast<std::uint32_t>(expected.size());
    EXPECT_EQ(table.add(word), expected.try_emplace(word, number).first->second);
  }
  ASSERT_EQ(table.size(), expected.size());
  for (const auto& [word, number] : expected) {
    EXPECT_EQ(table.find(word), number);
    EXPECT_EQ(table.word(number), word);
  }
  EXPECT_EQ(table.find("w"), std::nullopt);
  EXPECT_EQ(table.find("w9000"), std::nullopt);
}

TEST(Vocabulary, CountsWordsTheMostFrequentFirst) {
  const auto text = word_bytes("b a c b\nd b a d e");
  const auto all = Vocabulary::of_text(text, {.min_count = 1});
  ASSERT_TRUE(all.has_value());
  EXPECT_THAT(all->words(), ElementsAre("b", "a", "d", "c", "e"));
  EXPECT_THAT(all->counts(), ElementsAre(3, 2, 2, 1, 1));
  EXPECT_EQ(all->total_count(), 9U);

  const auto frequent = Vocabulary::of_text(text, {.min_count = 2});
  ASSERT_TRUE(frequent.has_value());
  EXPECT_THAT(frequent->words(), ElementsAre("b", "a", "d"));
  EXPECT_EQ(frequent->total_count(), 7U);
  EXPECT_THAT(frequent->encode(text), ElementsAre(0, 1, 0, kSentenceEnd, 2, 0, 1, 2));
}

TEST(Vocabulary, OfNoWordsIsRefused) {
  for (const char* text : {"", "a b c", "1 2 3"}) {
    const auto refused = Vocabulary::of_text(word_bytes(text), {.min_count = 2});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  }
}

TEST(KeepProbabilities, AreThoseOfTheFormula) {
  // T = 1000, t T = 10: f = 640 gives (8 + 1) / 64, f = 40 gives (2 + 1) / 4, and f = 10 gives 2,
  // which is clamped to 1.
  const std::uint64_t counts[] = {640, 310, 40, 10};
  const auto keep = keep_probabilities(counts, 0.01);
  EXPECT_DOUBLE_EQ(keep[0], 9.0 / 64);
  EXPECT_DOUBLE_EQ(keep[1], (std::sqrt(31.0) + 1) / 31);
  EXPECT_DOUBLE_EQ(keep[2], 0.75);
  EXPECT_DOUBLE_EQ(keep[3], 1);
  EXPECT_THAT(keep_probabilities(counts, 0), ElementsAre(1, 1, 1, 1));
}

}  // namespace
}  // namespace tally::word2vec
