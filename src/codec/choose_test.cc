#include "codec/choose.h"

#include <limits>

#include <gtest/gtest.h>

namespace tally::codec {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Candidates for 1 MB of gradient, both directions.
std::vector<Candidate> candidates(double int8_seconds, double topk_seconds) {
  return {{.text = "none", .bytes = 2'000'000},
          {.text = "int8", .bytes = 500'000, .codec_seconds = int8_seconds},
          {.text = "topk", .bytes = 40'000, .codec_seconds = topk_seconds}};
}

TEST(ChooseCodec, TheFirstOfThoseThatAreAboutAsFastAsTheFastest) {
  struct Case {
    WireCost wire;
    double hidden;
    std::vector<Candidate> candidates;
    std::string_view reason;
  };
  const Case cases[] = {
      // 100 MB/s: none takes 20 ms, int8 5 + 1 ms, topk 0.4 + 8 ms.
      {{1e-8}, 0, candidates(1e-3, 8e-3), "bucket 3: int8, 6.0 ms instead of 20.0 ms at 100 MB/s"},
      // 10 MB/s: the smallest encoding wins.
      {{1e-7}, 0, candidates(1e-3, 8e-3), "bucket 3: topk, 12.0 ms instead of 200 ms at 10.0 MB/s"},
      // 10 GB/s: no codec is fast enough.
      {{1e-10},
       0,
       candidates(1e-3, 8e-3),
       "bucket 3: none, 200 us at 10.0 GB/s; int8 would take 1.1 ms"},
      // The latency of messages is the same for all candidates.
      {{1e-8, 1e-2},
       0,
       candidates(1e-3, 8e-3),
       "bucket 3: int8, 26.0 ms instead of 40.0 ms at 100 MB/s"},
      // int8 takes 2.9 %, then 3.1 % longer than topk.
      {{1e-8},
       0,
       candidates(5.29e-3, 9.6e-3),
       "bucket 3: int8, 10.3 ms instead of 20.0 ms at 100 MB/s"},
      {{1e-8},
       0,
       candidates(5.31e-3, 9.6e-3),
       "bucket 3: topk, 10.0 ms instead of 20.0 ms at 100 MB/s"},
      // Computation takes longer than every exchange, then as long as int8, then less time.
      {{1e-8},
       0.03,
       candidates(1e-3, 8e-3),
       "bucket 3: none, 20.0 ms at 100 MB/s, hidden behind 30.0 ms of computing"},
      {{1e-8},
       0.0061,
       candidates(1e-3, 2e-3),
       "bucket 3: int8, 6.0 ms instead of 20.0 ms at 100 MB/s"},
      {{1e-8},
       0.004,
       candidates(1e-3, 2e-3),
       "bucket 3: topk, 2.4 ms instead of 20.0 ms at 100 MB/s"},
      // A slow link, and a link of infinite bandwidth.
      {{1e-4}, 0, candidates(1e-3, 8e-3), "bucket 3: topk, 4.0 s instead of 200 s at 10.0 kB/s"},
      {{0},
       0,
       candidates(1e-3, 8e-3),
       "bucket 3: none, 0.0 us at any rate; int8 would take 1.0 ms"},
      // A candidate without a valid measurement is not chosen.
      {{1e-8}, 0, candidates(kNan, -1), "bucket 3: none, 20.0 ms at 100 MB/s"},
      {{kNan}, 0, candidates(1e-3, 8e-3), "bucket 3: none, because nothing could be measured"},
      {{1e-8}, 0, {{.text = "none", .bytes = 1000}}, "bucket 3: none, 10.0 us at 100 MB/s"},
  };
  for (const Case& c : cases) {
    const CodecChoice choice =
        choose_codec(c.wire, {.bucket = 3, .hidden_seconds = c.hidden}, c.candidates);
    EXPECT_EQ(choice.reason, c.reason);
    ASSERT_LT(choice.index, c.candidates.size());
    EXPECT_NE(choice.reason.find(c.candidates[choice.index].text), std::string::npos);
  }
}

TEST(ChooseCodec, TimeIsThatOfCodecMessagesAndBytes) {
  EXPECT_DOUBLE_EQ(predicted_seconds({.seconds_per_byte = 1e-9, .seconds_per_message = 1e-4},
                                     {.bytes = 1'000'000, .messages = 3, .codec_seconds = 0.002}),
                   0.002 + 3e-4 + 1e-3);
  const auto many = candidates(1e-3, 8e-3);
  EXPECT_DOUBLE_EQ(choose_codec({1e-8}, {}, many).seconds, 6e-3);
  EXPECT_EQ(choose_codec({1e-8}, {}, many).index, 1U);
}

TEST(ChooseCodec, OfWhatWasTimedTheFirstThatIsAboutAsFastAsTheFastest) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Case {
    std::vector<double> seconds;
    std::size_t chosen;
  };
  const Case cases[] = {
      {{0.1}, 0},
      {{0.1, 0.05, 0.08}, 1},
      // 2.9 %, then 3.1 % longer than the fastest.
      {{0.1029, 0.1}, 0},
      {{0.1031, 0.1}, 1},
      {{0.2, 0.1029, 0.1}, 1},
      // A candidate that was not timed is not chosen.
      {{kNever, 0.3, 0.2}, 2},
      {{kNan, 0.3, -1, 0}, 1},
      {{kNever, kNan}, 0},
      {{}, 0},
  };
  for (const Case& c : cases)
    EXPECT_EQ(fastest_of(c.seconds), c.chosen) << testing::PrintToString(c.seconds);
}

TEST(ChooseCodec, NoneIsAlwaysAmongWhatIsChosenFrom) {
  using Texts = std::vector<std::string>;
  const auto of = [](std::string_view text) {
    return candidates_of(plan::parse_codec(text).value());
  };
  EXPECT_EQ(of("auto"), (Texts{"none", "bf16", "int8", "qsgd", "powersgd:4"}));
  EXPECT_EQ(of("auto:from=int8:128/fp16"), (Texts{"none", "int8:128", "fp16"}));
  EXPECT_EQ(of("auto:from=int8/none"), (Texts{"none", "int8"}));
  // Each candidate parses, prints as the same text, and is one that auto may choose.
  for (const std::string& text : of("auto"))
    EXPECT_EQ(plan::to_string(plan::parse_codec(text).value()), text);
  std::string list;
  for (const std::string& text : of("auto")) list += (list.empty() ? "" : "/") + text;
  EXPECT_TRUE(plan::parse_codec("auto:from=" + list));
}

}  // namespace
}  // namespace tally::codec
