#include "codec/conformance_test_support.h"

// The contract of every codec for ordinary values: its error bounds, its sizes, and its random
// numbers.
namespace tally::codec {
namespace {

using plan::Codec::kNatural;
using plan::Codec::kQsgd;
using plan::Codec::kRandk;
using plan::Codec::kTernary;

TEST_P(EveryCodec, ValuesComeBackWithinItsBound) {
  with_each_stage([&] {
    for (const double scale : {1.0, 1e-6, 1e6}) {
      Values in = normal_values(5000, 1);
      for (float& value : in) value *= static_cast<float>(scale);
      const Values out = there_and_back(*codec_, in);
      expect_within_bounds(spec_, in, out);
    }
  });
}

TEST_P(EveryCodec, ThatIsSparseSendsAsItIsOrNotAtAll) {
  with_each_stage([&] {
    const Values in = normal_values(20000, 11);
    const Values out = there_and_back(*codec_, in);
    std::size_t sent = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      sent += out[i] == in[i] ? 1 : 0;
      ASSERT_TRUE(!is_sparse() || out[i] == in[i] || out[i] == 0) << i;
    }
    // A sampled threshold has a random error.
    if (spec_.density > 0) {
      EXPECT_NEAR(static_cast<double>(sent), spec_.density * 20000, 0.3 * spec_.density * 20000);
    }
  });
}

TEST_P(EveryCodec, SaysSoIfItIsExact) {
  with_each_stage([&] {
    const Values in = normal_values(3000, 2);
    const bool same = same_bits(there_and_back(*codec_, in), in);
    EXPECT_LE(codec_->traits().exact, same);
    const bool all_is_sent = spec_.kind == plan::Codec::kNone || spec_.density >= 1 ||
                             (spec_.kind == plan::Codec::kThreshold && spec_.threshold < 1e-20);
    EXPECT_EQ(same, all_is_sent);
  });
}

TEST_P(EveryCodec, AddsWhatItDecodes) {
  with_each_stage([&] {
    const Values in = normal_values(3001, 3);
    const Bytes bytes = encode(*codec_, in);
    const Values decoded = decode(*codec_, bytes, in.size());
    for (const float weight : {1.0F, -1.0F, 0.3F}) {
      Values sum = normal_values(in.size(), 4);
      const Values before = sum;
      ASSERT_TRUE(codec_->decode_add(bytes, weight, sum));
      for (std::size_t i = 0; i < in.size(); ++i) {
        // The codec may multiply the scale by the weight first. Both the product and the sum are
        // rounded.
        const double exact = double{before[i]} + double{weight} * double{decoded[i]};
        const double rounding = 0x1p-23 * std::abs(double{decoded[i]}) + 0x1p-24 * std::abs(exact);
        ASSERT_NEAR(sum[i], exact, rounding) << i;
      }
    }
  });
}

// Values and bytes may lie at any address inside larger arrays. The codec writes nothing outside of
// them.
void check_place(const Codec& codec, const Values& source, std::size_t count, std::size_t float_at,
                 std::size_t byte_at) {
  const std::span<const float> in = std::span(source).subspan(float_at, count);
  constexpr std::byte kGuard{0xA5};
  Bytes bytes(byte_at + codec.max_bytes(count) + 64, kGuard);
  const std::size_t used =
      codec.encode(in, {}, std::span(bytes).subspan(byte_at, codec.max_bytes(count)));
  ASSERT_LE(used, codec.max_bytes(count));
  ASSERT_EQ(std::count(bytes.end() - 64, bytes.end(), kGuard), 64);
  ASSERT_EQ(std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(byte_at), kGuard),
            static_cast<std::ptrdiff_t>(byte_at));
  const Values aligned(in.begin(), in.end());
  const Bytes expected = encode(codec, aligned);
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                         bytes.begin() + static_cast<std::ptrdiff_t>(byte_at)));
  Values out(float_at + count + 16, -77);
  ASSERT_TRUE(codec.decode(std::span(bytes).subspan(byte_at, used),
                           std::span(out).subspan(float_at, count)));
  const Values decoded = decode(codec, expected, count);
  ASSERT_TRUE(same_bits(std::span(out).subspan(float_at, count), decoded));
  ASSERT_EQ(std::count(out.end() - 16, out.end(), -77.0F), 16);
  ASSERT_EQ(std::count(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(float_at), -77.0F),
            static_cast<std::ptrdiff_t>(float_at));
}

TEST_P(EveryCodec, TakesAllLengthsToAThousand) {
  with_each_stage([&] {
    const Values source = normal_values(1100, 5);
    for (std::size_t count = 0; count <= 1000; ++count) {
      check_place(*codec_, source, count, count % 16, count % 7);
      ASSERT_FALSE(HasFatalFailure()) << count;
      const Values in(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(count));
      const Values out = there_and_back(*codec_, in);
      expect_within_bounds(spec_, in, out);
      ASSERT_FALSE(HasFatalFailure()) << count;
    }
  });
}

TEST_P(EveryCodec, TakesAllAlignments) {
  with_each_stage([&] {
    const Values source = normal_values(1100, 6);
    for (std::size_t at = 0; at < 64; ++at) {
      check_place(*codec_, source, 517, at % 16, at);
      ASSERT_FALSE(HasFatalFailure()) << at;
    }
  });
}

TEST_P(EveryCodec, GivesTheSameBytesForTheSameDraw) {
  with_each_stage([&] {
    const Values in = normal_values(4000, 7);
    const Draw draw{.seed = 3, .step = 5, .rank = 2, .first = 65536};
    EXPECT_EQ(encode(*codec_, in, draw), encode(*make_codec(spec_), in, draw));
  });
}

TEST_P(EveryCodec, HasOtherRandomNumbersForAnotherDraw) {
  with_each_stage([&] {
    const Values in = normal_values(4000, 7);
    const Draw draw{.seed = 3, .step = 5, .rank = 2, .first = 65536};
    const Values one = there_and_back(*codec_, in, draw);
    const bool at_places = spec_.kind == kRandk && spec_.density < 1;
    const bool by_chance = spec_.kind == kQsgd || spec_.kind == kTernary || spec_.kind == kNatural;
    const auto differs = [&](const Draw& other) {
      return !same_bits(one, there_and_back(*codec_, in, other));
    };
    EXPECT_EQ(differs({.seed = 4, .step = 5, .rank = 2, .first = 65536}), by_chance || at_places);
    EXPECT_EQ(differs({.seed = 3, .step = 6, .rank = 2, .first = 65536}), by_chance || at_places);
    EXPECT_EQ(differs({.seed = 3, .step = 5, .rank = 2, .first = 0}), by_chance || at_places);
    // All senders of randk draw the same indices.
    EXPECT_EQ(differs({.seed = 3, .step = 5, .rank = 1, .first = 65536}), by_chance);
  });
}

TEST_P(EveryCodec, HasOtherRandomNumbersForEachValue) {
  with_each_stage([&] {
    // The same values in both blocks.
    const Values once = normal_values(512, 7);
    Values in = once;
    in.insert(in.end(), once.begin(), once.end());
    const Values out = there_and_back(*codec_, in);
    const bool same = same_bits(std::span(out).first(512), std::span(out).last(512));
    const bool by_chance = spec_.kind == kQsgd || spec_.kind == kTernary || spec_.kind == kNatural;
    if (by_chance) {
      EXPECT_FALSE(same);
    } else if (!is_sparse() && 512 % spoiled_together(spec_, in.size()) == 0) {
      EXPECT_TRUE(same);
    }
  });
}

TEST_P(EveryCodec, IsNeverLargerThanItSays) {
  with_each_stage([&] {
    const Values in = normal_values(65536, 8);
    EXPECT_LE(encode(*codec_, in).size(), codec_->max_bytes(in.size()));
  });
}

// The size of a fixed-size encoding does not depend on the values. Sparse codecs and entropy stages
// have no fixed size.
TEST_P(EveryCodec, IsOfFixedSizeIfItSaysSo) {
  with_each_stage([&] {
    const bool sparse = spec_.density > 0 || spec_.kind == plan::Codec::kThreshold;
    ASSERT_EQ(codec_->traits().fixed_size, !sparse && spec_.stage == plan::EntropyStage::kNone);
    for (const std::size_t count : {0U, 1U, 300U, 5000U}) {
      Values odd = normal_values(count, 8);
      if (count > 1) odd[1] = std::numeric_limits<float>::quiet_NaN();
      const std::size_t bytes = codec_->max_bytes(count);
      for (const Values& in : {normal_values(count, 9), odd, Values(count, 0.0F)}) {
        if (codec_->traits().fixed_size) {
          EXPECT_EQ(encode(*codec_, in).size(), bytes) << count;
        } else {
          EXPECT_LE(encode(*codec_, in).size(), bytes) << count;
        }
      }
    }
  });
}

TEST_P(EveryCodec, BehindAStageIsWhatItIsWithout) {
  with_each_stage([&] {
    plan::CodecSpec bare = spec_;
    bare.stage = plan::EntropyStage::kNone;
    const auto inner = make_codec(bare);
    for (const std::size_t count : {0U, 1U, 40U, 3000U, 65536U}) {
      const Values in = normal_values(count, 10);
      const Draw draw{.seed = 9, .step = 8, .rank = 7, .first = 6};
      EXPECT_TRUE(same_bits(there_and_back(*codec_, in, draw), there_and_back(*inner, in, draw)))
          << count;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, EveryCodec, testing::ValuesIn(codec_texts()), codec_test_name);

// With onebit:column, a block is as long as one column of the weight matrix has inputs.
TEST(OnebitByColumn, HasMeansForEachOutput) {
  const auto codec = make_codec(spec_of("onebit:column"), {.columns = 30});
  Values in(90, 1);
  for (std::size_t i = 30; i < 60; ++i) in[i] = 5;
  for (std::size_t i = 60; i < 90; ++i) in[i] = -2;
  EXPECT_EQ(there_and_back(*codec, in), in);
}

// The same holds for a bucket that starts in the middle of a matrix.
TEST(OnebitByColumn, HasMeansForEachOutputInTheMiddleOfAMatrix) {
  Values whole(300);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i / 30) - 4.5F;
  for (const std::size_t begin : {7, 29, 30, 59, 60, 290}) {
    for (std::size_t count = 0; count <= whole.size() - begin; ++count) {
      const auto codec = make_codec(spec_of("onebit:column"),
                                    shape_of(std::vector<std::int64_t>{10, 5, 6}, begin));
      const auto first = whole.begin() + static_cast<std::ptrdiff_t>(begin);
      const Values in(first, first + static_cast<std::ptrdiff_t>(count));
      ASSERT_EQ(there_and_back(*codec, in), in) << begin << " " << count;
    }
  }
}

}  // namespace
}  // namespace tally::codec
