#include "recipes/word2vec/chunk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tally::word2vec {
namespace {

// Chi-square statistic of the observed counts against probabilities proportional to `weights`.
double chi_square(const std::vector<double>& observed, const std::vector<double>& weights) {
  double draws = 0, sum = 0, chi = 0;
  for (const double count : observed) draws += count;
  for (const double weight : weights) sum += weight;
  for (std::size_t i = 0; i < observed.size(); ++i) {
    const double expected = draws * weights[i] / sum;
    chi += (observed[i] - expected) * (observed[i] - expected) / expected;
  }
  return chi;
}

TEST(NegativeSampler, DrawsByCountToThePowerOfThreeQuarters) {
  std::vector<std::uint64_t> counts;
  for (std::uint64_t i = 1; i <= 50; ++i) counts.push_back(1 + 100000 / (i * i));
  std::vector<double> weights;
  for (const std::uint64_t count : counts)
    weights.push_back(std::pow(static_cast<double>(count), 0.75));
  const NegativeSampler sampler(counts);
  for (const std::uint64_t seed : {1, 2, 3}) {
    Rng rng(seed);
    std::vector<double> observed(counts.size());
    for (int i = 0; i < 1000000; ++i) ++observed[sampler.draw(rng)];
    // With 49 degrees of freedom, the statistic exceeds 100 once in 40,000 tests.
    EXPECT_LT(chi_square(observed, weights), 100) << "seed " << seed;
  }
}

TEST(NegativeSampler, OfOneWordDrawsIt) {
  const std::uint64_t one[] = {7};
  const NegativeSampler sampler(one);
  Rng rng(1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sampler.draw(rng), 0U);
}

class Chunks : public testing::Test {
 protected:
  // Words 0 to 99 in order, ten words per sentence.
  Chunks() {
    for (WordId id = 0; id < 100; ++id) {
      text_.push_back(id);
      if (id % 10 == 9) text_.push_back(kSentenceEnd);
    }
  }

  const std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(100, 1);
  const NegativeSampler negatives_ = NegativeSampler(counts_);
  const std::vector<double> keep_ = std::vector<double>(100, 1);
  std::vector<WordId> text_;
};

TEST_F(Chunks, NeighboursAreAllWordsOfTheSentenceWithinAWindow) {
  ChunkSource source(text_, keep_, negatives_, {.window = 4, .negatives = 5}, 11);
  EXPECT_EQ(source.words(), 100U);
  std::set<std::size_t> reaches;
  Chunk chunk;
  for (int pass = 0; pass < 20; ++pass) {
    ASSERT_TRUE(source.next(chunk));
    EXPECT_EQ(chunk.words, 100U);
    ASSERT_EQ(chunk.centres.size(), 100U);
    for (WordId id = 0; id < 100; ++id) {
      const Centre& centre = chunk.centres[id];
      const std::vector<WordId> neighbours(
          chunk.inputs.begin() + centre.first_input,
          chunk.inputs.begin() + centre.first_input + centre.input_count);
      // The furthest neighbour determines both ends of the window. Every word of the sentence
      // between them must be a neighbour.
      WordId reach = 0;
      for (const WordId other : neighbours)
        reach = std::max(reach, other > id ? other - id : id - other);
      reaches.insert(reach);
      std::vector<WordId> expected;
      for (WordId other = id - id % 10; other < id - id % 10 + 10; ++other)
        if (other != id && (other > id ? other - id : id - other) <= reach)
          expected.push_back(other);
      EXPECT_EQ(neighbours, expected);
    }
    ASSERT_FALSE(source.next(chunk));
    EXPECT_TRUE(chunk.centres.empty());
  }
  EXPECT_EQ(reaches, (std::set<std::size_t>{1, 2, 3, 4}));
}

TEST_F(Chunks, TheRightWordIsFirstAndNeverAmongTheWrongOnes) {
  ChunkSource source(text_, keep_, negatives_, {.window = 4, .negatives = 5}, 11);
  Chunk chunk;
  std::size_t left_out = 0;
  for (int pass = 0; pass < 50; ++pass) {
    ASSERT_TRUE(source.next(chunk));
    for (WordId id = 0; id < 100; ++id) {
      const Centre& centre = chunk.centres[id];
      ASSERT_GE(centre.output_count, 1U);
      EXPECT_EQ(chunk.outputs[centre.first_output], id);
      for (std::uint32_t o = 1; o < centre.output_count; ++o)
        EXPECT_NE(chunk.outputs[centre.first_output + o], id);
      left_out += 6 - centre.output_count;
    }
    ASSERT_FALSE(source.next(chunk));
  }
  // One draw in a hundred hits the centre: 250 of 25,000, with a standard deviation of 16.
  EXPECT_NEAR(static_cast<double>(left_out), 250, 80);
}

TEST_F(Chunks, WordsStayWithTheirProbability) {
  std::vector<double> keep(100, 1);
  keep[5] = 0.25;
  ChunkSource source(text_, keep, negatives_, {.window = 1, .negatives = 1}, 4);
  Chunk chunk;
  int stayed = 0;
  for (int pass = 0; pass < 4000; ++pass) {
    ASSERT_TRUE(source.next(chunk));
    EXPECT_EQ(chunk.words, 100U);
    for (const Centre& centre : chunk.centres)
      stayed += chunk.outputs[centre.first_output] == 5 ? 1 : 0;
    ASSERT_FALSE(source.next(chunk));
  }
  // The standard deviation is 27.
  EXPECT_NEAR(stayed, 1000, 140);
}

TEST_F(Chunks, TheSameSeedGivesTheSameChunks) {
  const auto inputs_of = [this](std::uint64_t seed) {
    ChunkSource source(text_, keep_, negatives_, {.window = 5, .negatives = 5}, seed);
    Chunk chunk;
    EXPECT_TRUE(source.next(chunk));
    chunk.inputs.insert(chunk.inputs.end(), chunk.outputs.begin(), chunk.outputs.end());
    return chunk.inputs;
  };
  EXPECT_EQ(inputs_of(1), inputs_of(1));
  EXPECT_NE(inputs_of(1), inputs_of(2));
}

TEST_F(Chunks, LongTextsComeInSeveralAndLongSentencesAreCut) {
  const std::vector<WordId> endless(5500, 3);
  ChunkSource source(endless, keep_, negatives_, {.window = 2, .negatives = 0}, 1);
  Chunk chunk;
  std::uint64_t words = 0;
  std::size_t chunks = 0;
  for (; source.next(chunk); ++chunks) {
    words += chunk.words;
    EXPECT_LE(chunk.words, kMaxSentence);
  }
  EXPECT_EQ(words, 5500U);
  EXPECT_EQ(chunks, 6U);
}

}  // namespace
}  // namespace tally::word2vec
