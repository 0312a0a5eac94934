#include "bench/word2vec/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::bench {
namespace {

using testing::HasSubstr;

TEST(FasttextSpeed, IsTheLastOneThatWasPrinted) {
  EXPECT_EQ(fasttext_speed("Read 13M words\rProgress: 1.0% words/sec/thread:  9 lr: 1\r"
                           "Progress: 100.0% words/sec/thread:  124471 lr:  0.0"),
            124471);
  EXPECT_EQ(fasttext_speed("Number of words: 4"), std::nullopt);
  EXPECT_EQ(fasttext_speed("words/sec/thread:"), std::nullopt);
  EXPECT_EQ(fasttext_speed("words/sec/thread: -nan"), std::nullopt);
}

TEST(ComparisonText, EndsWithTheMedianOfTheRatiosOfRounds) {
  Word2vecComparison comparison;
  for (const double speed : {900e3, 800e3, 1000e3})
    comparison.tally.push_back({.words_per_s = speed, .processor_s = 2});
  for (const double speed : {300e3, 400e3, 200e3})
    comparison.fasttext.push_back({.words_per_s = speed, .processor_s = speed / 1e4});
  EXPECT_THAT(
      comparison_text(comparison),
      HasSubstr("ratio     3.00 (2.00 to 5.00) times fasttext's words/s, median of 3 rounds"));
  EXPECT_THAT(comparison_text(comparison),
              HasSubstr("fasttext computes 15.00 (10.00 to 20.00) times as long"));
  EXPECT_THAT(comparison_text(comparison),
              HasSubstr("tally     900 (800 to 1000) thousand words/s"));
  comparison.tally[0].analogies = word2vec::AnalogyResult{.total = {1, 4}};
  comparison.tally[1].analogies = comparison.tally[2].analogies = comparison.tally[0].analogies;
  EXPECT_THAT(comparison_text(comparison), HasSubstr("analogies 25.0 % (25.0 to 25.0) of 4"));
  comparison.fasttext.clear();
  EXPECT_THAT(comparison_text(comparison), testing::Not(HasSubstr("ratio")));
}

}  // namespace
}  // namespace tally::bench
