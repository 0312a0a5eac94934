#include "recipes/word2vec/evaluation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::word2vec {
namespace {

using testing::HasSubstr;

std::span<const std::byte> question_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Two pairs of words, each a quarter turn apart in the plane, and two distractors.
const Vectors kPlane{.words = {"king", "Queen", "man", "woman", "far", "near"},
                     .dimension = 3,
                     .values = {1, 0, 0, 0, 1, 0,        //
                                1, 0, 0.5F, 0, 1, 0.5F,  //
                                0, 0, -1, 5, 4, 0}};

TEST(Analogies, AnAnswerIsTheNearestWordThatWasNotAsked) {
  // woman - man + king: the unit vectors give (1, 0, 0) + (0 - 0.894, 0.894, 0) = (0.106, 0.894,
  // 0), so the answer is Queen.
  const auto questions = parse_analogies(
      question_bytes(": family\nMAN woman king QUEEN\nman woman king near\nman woman king ghost\n"
                     ": gram1-x\nking queen man woman\n"),
      "q");
  ASSERT_TRUE(questions.has_value());
  const AnalogyResult result = answer_analogies(kPlane, *questions, 0);
  EXPECT_EQ(result.semantic, (Score{1, 2}));
  EXPECT_EQ(result.syntactic, (Score{1, 1}));
  EXPECT_EQ(result.total, (Score{2, 3}));
  EXPECT_EQ(result.unknown, 1U);
  ASSERT_EQ(result.sections.size(), 2U);
  EXPECT_EQ(result.sections[0].name, "family");
  EXPECT_EQ(result.sections[0].score, (Score{1, 2}));
  // The first three words do not include "woman".
  EXPECT_EQ(answer_analogies(kPlane, *questions, 3).unknown, 4U);
}

TEST(Analogies, ManyQuestionsAndWordsAreAnsweredLikeFew) {
  // Each w(i) is an axis of 200 dimensions, and v(i) points almost the same way. The result of w(i)
  // - w(j) + w(j) is w(i), which is part of the question, so the answer is v(i).
  Vectors vectors{.dimension = 200};
  for (int i = 0; i < 200; ++i) {
    for (const bool beside : {false, true}) {
      vectors.words.push_back(fmt::format("{}{}", beside ? "v" : "w", i));
      std::vector<float> values(200, 0.0F);
      values[static_cast<std::size_t>(i)] = beside ? 2 : 1;
      values[static_cast<std::size_t>((i + 1) % 200)] = beside ? 0.1F : 0;
      vectors.values.insert(vectors.values.end(), values.begin(), values.end());
    }
  }
  AnalogyQuestions questions{.sections = {"s"}};
  for (int i = 0; i < 150; ++i) {
    const std::string w = fmt::format("w{}", i);
    questions.questions.push_back({.words = {"w199", w, "w199", fmt::format("v{}", i)}});
  }
  EXPECT_EQ(answer_analogies(vectors, questions, 0).total, (Score{150, 150}));
}

TEST(ParseAnalogies, RefusesLinesOfOtherLengths) {
  EXPECT_EQ(parse_analogies(question_bytes("a b c d\r\n\n"), "q")->sections[0], "questions");
  for (const char* text : {"a b c\n", "a b c d e\n", ": x\n:\n", ": two names\n"}) {
    const auto refused = parse_analogies(question_bytes(text), "q");
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(refused.error().message, HasSubstr("q: line "));
  }
}

TEST(RankCorrelation, IsThatOfHandComputedRanks) {
  const double rising[] = {1, 2, 3, 4, 5};
  const double falling[] = {9, 7, 5, 3, 1};
  const double swapped[] = {2, 1, 4, 3, 5};
  const double tied[] = {1, 1, 2, 3, 3};
  const double constant[] = {1, 1, 1, 1, 1};
  EXPECT_DOUBLE_EQ(rank_correlation(rising, rising), 1);
  EXPECT_DOUBLE_EQ(rank_correlation(rising, falling), -1);
  // 1 - 6 * (1 + 1 + 1 + 1) / (5 * 24).
  EXPECT_DOUBLE_EQ(rank_correlation(rising, swapped), 0.8);
  // Ranks 0.5, 0.5, 2, 3.5, 3.5: covariance 9, squares 10 and 9.
  EXPECT_DOUBLE_EQ(rank_correlation(rising, tied), 9 / std::sqrt(90.0));
  EXPECT_EQ(rank_correlation(rising, constant), 0);
  EXPECT_EQ(rank_correlation({}, {}), 0);
}

TEST(Similarity, IsTheRankCorrelationOfCosines) {
  const auto pairs = parse_pairs(
      question_bytes("# words\nking\tMan 9.5\nqueen far 0.5\nking near 7\nking ghost 3\n"), "p");
  ASSERT_TRUE(pairs.has_value());
  // Cosines 0.894, 0 and 0.781.
  const SimilarityResult result = compare_similarities(kPlane, *pairs);
  EXPECT_DOUBLE_EQ(result.correlation, 1);
  EXPECT_EQ(result.found, 3U);
  EXPECT_EQ(result.total, 4U);
}

TEST(ParsePairs, RefusesLinesWithoutANumber) {
  for (const char* text : {"a b\n", "a b c\n", "a b 1 2\n", "a b nan\n", "a b 1x\n"}) {
    const auto refused = parse_pairs(question_bytes(text), "p");
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace tally::word2vec
