#include "exchange/auto_codec/codec_decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tally::exchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// 1 MB uncompressed, a quarter of that for 1 ms of compute, or a hundredth for 3 ms.
CodecFigures::Bucket bucket(double early_seconds) {
  return {.early_seconds = early_seconds,
          .candidates = {{.text = "none", .bytes = 1'000'000},
                         {.text = "int8", .bytes = 250'000, .codec_seconds = 1e-3},
                         {.text = "topk", .bytes = 10'000, .codec_seconds = 3e-3}}};
}

CodecFigures figures(double bytes_per_second, const std::vector<double>& early) {
  CodecFigures figures{.wire = {.seconds_per_byte = 1 / bytes_per_second}};
  for (const double seconds : early) figures.buckets.push_back(bucket(seconds));
  return figures;
}

TEST(CodecDecision, TakesWhatIsFastestWhereNothingIsHidden) {
  // none 100 us, int8 1.025 ms, topk 3.001 ms.
  EXPECT_THAT(decide(figures(1e10, {0, 0, 0})).chosen, ElementsAre(0, 0, 0));
  // 4 ms, 2 ms, 3.04 ms.
  EXPECT_THAT(decide(figures(250e6, {0, 0, 0})).chosen, ElementsAre(1, 1, 1));
  // 100 ms, 26 ms, 4 ms.
  EXPECT_THAT(decide(figures(10e6, {0, 0, 0})).chosen, ElementsAre(2, 2, 2));
}

TEST(CodecDecision, LosesNothingWhereComputingHidesEverything) {
  const CodecDecision decision = decide(figures(10e6, {0.5, 0.3, 0.2}));
  EXPECT_THAT(decision.chosen, ElementsAre(0, 0, 0));
  EXPECT_EQ(decision.late_seconds, 0);
  EXPECT_EQ(decision.plain_late_seconds, 0);
}

// 100 ms each without compression: the first bucket alone would be in time, but not the buckets
// after it.
TEST(CodecDecision, LeavesLaterBucketsTheTimeTheyNeed) {
  const CodecDecision decision = decide(figures(10e6, {0.1, 0.05, 0.01}));
  // The last bucket is ready 10 ms before the end and takes 4 ms.
  EXPECT_EQ(decision.late_seconds, 0);
  EXPECT_NEAR(decision.plain_late_seconds, 0.2, 1e-9);
  EXPECT_NE(decision.chosen[0], 0U);
  for (const double early : {0.0, 0.001, 0.003, 0.02}) {
    const CodecFigures given = figures(10e6, {early + 0.02, early + 0.01, early});
    const CodecDecision other = decide(given);
    // topk for all buckets, 4 ms each, is the earliest possible end.
    double end = -1;
    for (const auto& each : given.buckets) end = std::max(end, -each.early_seconds) + 4e-3;
    EXPECT_LE(other.late_seconds, std::max(end, 0.0) + 0.03 * 0.03) << early;
  }
}

TEST(CodecDecision, TakesNothingThatWasNotMeasured) {
  CodecFigures given = figures(10e6, {0, 0});
  given.buckets[1].candidates[1].codec_seconds = std::numeric_limits<double>::infinity();
  given.buckets[1].candidates[2].codec_seconds = std::numeric_limits<double>::infinity();
  EXPECT_THAT(decide(given).chosen, ElementsAre(2, 0));
}

TEST(CodecDecision, OfNoBucketsIsEmpty) {
  const CodecDecision decision = decide({});
  EXPECT_TRUE(decision.chosen.empty());
  EXPECT_EQ(decision.late_seconds, 0);
  EXPECT_THAT(sentence_of({}, decision), HasSubstr("of 0 buckets"));
}

TEST(CodecDecision, TriesAFewWaysThatMayBeTheFastest) {
  struct Case {
    double bytes_per_second;
    std::vector<double> early;
    std::size_t most;
    std::vector<std::vector<std::size_t>> chosen;
  };
  const Case cases[] = {
      // none 100 us, int8 1.025 ms: no codec is worth a trial.
      {1e10, {0, 0}, 3, {{0, 0}}},
      // 4 ms, 2 ms, 3.04 ms: both decisions are int8, which leaves room for topk: slower, but still
      // faster than none.
      {250e6, {0, 0}, 3, {{0, 0}, {1, 1}, {2, 2}}},
      {250e6, {0, 0}, 1, {{0, 0}, {1, 1}}},
      {250e6, {0, 0}, 0, {{0, 0}}},
      // 3.3 ms, 1.8 ms, 3.03 ms.
      {300e6, {0, 0}, 3, {{0, 0}, {1, 1}, {2, 2}}},
      // 2.5 ms, 1.6 ms, 3.025 ms: topk is slower than none.
      {400e6, {0, 0}, 3, {{0, 0}, {1, 1}}},
      // 100 ms, 26 ms, 4 ms. With idle cores the backward pass hides none; without them topk or
      // int8 is best.
      {10e6, {0.5, 0.4}, 3, {{0, 0}, {1, 1}, {2, 2}}},
      {10e6, {0.5, 0.4}, 1, {{0, 0}, {2, 2}}},
      // The backward pass hides int8 for the first bucket, but not for the last.
      {10e6, {0.03, 0}, 3, {{0, 0}, {1, 1}, {1, 2}, {2, 2}}},
  };
  for (const Case& c : cases) {
    const auto found = finalists(figures(c.bytes_per_second, c.early), c.most);
    std::vector<std::vector<std::size_t>> chosen;
    for (const CodecDecision& decision : found) chosen.push_back(decision.chosen);
    EXPECT_EQ(chosen, c.chosen) << c.bytes_per_second << " " << c.early[0] << " " << c.most;
    for (std::size_t i = 2; i < found.size(); ++i) EXPECT_LE(found[i].bytes, found[i - 1].bytes);
  }
  EXPECT_EQ(finalists({}, 3).size(), 1U);
}

// Two of three buckets can use the codec.
TEST(CodecDecision, TriesACodecOnWhatCanHaveIt) {
  CodecFigures given = figures(10e6, {0, 0, 0});
  for (auto& bucket : given.buckets)
    bucket.candidates.push_back({.text = "powersgd", .bytes = 20'000, .codec_seconds = 3e-3});
  given.buckets[1].candidates[3].codec_seconds = std::numeric_limits<double>::infinity();
  const auto found = finalists(given, 3);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_THAT(found[1].chosen, ElementsAre(3, 0, 3));
  EXPECT_THAT(found[2].chosen, ElementsAre(1, 1, 1));
  EXPECT_THAT(found[3].chosen, ElementsAre(2, 2, 2));
  EXPECT_EQ(shares_of(given, found[1]), "2 powersgd, 1 none");
  EXPECT_NEAR(found[1].late_seconds, 0.005 + 0.1 + 0.005, 1e-9);
  EXPECT_EQ(found[1].bytes, 1'040'000U);
}

TEST(CodecDecision, IsToldInOneSentence) {
  CodecFigures given = figures(10e6, {0, 0, 0});
  given.buckets[1].candidates.resize(1);
  given.buckets[1].candidates[0].bytes = 1000;
  EXPECT_EQ(
      sentence_of(given, decide(given)),
      "codec=auto: 10MB/s between hosts; of 3 buckets 2 topk, 1 none; the last is there 8.1ms "
      "after the backward pass instead of 200.1ms; bucket 0: topk, 4.0 ms instead of 100 ms "
      "at 10.0 MB/s");
  const CodecFigures fast = figures(1e10, {0, 0, 0});
  EXPECT_EQ(sentence_of(fast, decide(fast)),
            "codec=auto: 10GB/s between hosts; of 3 buckets 3 none; the last is there 300us after "
            "the backward pass; bucket 0: none, 100 us at 10.0 GB/s; int8 would take 1.0 ms");
}

}  // namespace
}  // namespace tally::exchange
