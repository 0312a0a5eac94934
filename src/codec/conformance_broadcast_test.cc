#include "codec/conformance_test_support.h"

// The mean of the gradients of several senders, and its broadcast back to all ranks.
namespace tally::codec {
namespace {

class Meeting : public EveryCodec {
 protected:
  static constexpr std::size_t kCount = 1500;

  // The encoded and decoded gradients of `senders` senders, each weighted by its number of samples.
  struct Given {
    std::vector<Bytes> bytes;
    std::vector<Values> decoded;
    std::vector<double> weights;

    std::vector<Encoded> encoded() const {
      std::vector<Encoded> all;
      for (std::size_t i = 0; i < bytes.size(); ++i)
        all.push_back({.bytes = bytes[i], .weight = weights[i]});
      return all;
    }
    std::vector<const float*> pointers() const {
      std::vector<const float*> all;
      for (const Values& values : decoded) all.push_back(values.data());
      return all;
    }
  };

  Given give(std::uint32_t senders) const {
    Given given;
    for (std::uint32_t rank = 0; rank < senders; ++rank) {
      given.bytes.push_back(
          encode(*codec_, normal_values(kCount, 10 + rank), {.step = 3, .rank = rank}));
      given.decoded.push_back(decode(*codec_, given.bytes.back(), kCount));
      given.weights.push_back(8 + 3 * rank);
    }
    return given;
  }
  Values mean(const Given& given) const {
    Values mean(kCount, -77);
    EXPECT_TRUE(mean_of(spec_, *codec_, given.encoded(), mean));
    return mean;
  }
};

TEST_P(Meeting, OfOneIsWhatItSent) {
  with_each_stage([&] {
    Given given = give(1);
    given.weights = {1};
    const Values alone = mean(given);
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(alone[i], given.decoded[0][i]) << i;
  });
}

TEST_P(Meeting, OfBytesIsThatOfWhatWasDecoded) {
  with_each_stage([&] {
    for (std::uint32_t senders = 1; senders <= 5; ++senders) {
      const Given given = give(senders);
      Values decoded(kCount, -77);
      mean_of_decoded(spec_, given.pointers(), given.weights, decoded);
      const Values bytes = mean(given);
      for (std::size_t i = 0; i < kCount; ++i) {
        // Both use the same operations in the same order, except that mean() may multiply the scale
        // by the weight before it decodes the value.
        double magnitudes = 0;
        for (const Values& values : given.decoded) magnitudes += std::abs(double{values[i]});
        ASSERT_NEAR(bytes[i], decoded[i], 0x1p-22 * magnitudes) << senders << " " << i;
      }
    }
  });
}

TEST_P(Meeting, IsTheMeanByWeight) {
  with_each_stage([&] {
    // Sign codecs with a vote have a majority instead of a mean, with tests of their own.
    if (spec_.vote) return;
    const Given given = give(3);
    const Values means = mean(given);
    for (std::size_t i = 0; i < kCount; ++i) {
      double sum = 0;
      double magnitudes = 0;
      double weight = 0;
      for (std::size_t s = 0; s < 3; ++s) {
        sum += given.weights[s] * double{given.decoded[s][i]};
        magnitudes += std::abs(double{given.decoded[s][i]});
        weight += given.weights[s];
      }
      ASSERT_NEAR(means[i], sum / weight, 0x1p-22 * magnitudes) << i;
    }
  });
}

TEST_P(Meeting, DoesNotLookAtThoseWithoutSamples) {
  with_each_stage([&] {
    Given given = give(2);
    const Values both = mean(given);
    given.bytes.push_back(Bytes(3, std::byte{0xFF}));
    given.decoded.push_back(Values(kCount));
    given.weights.push_back(0);
    EXPECT_TRUE(same_bits(mean(given), both));
    given.weights = {0, 0, 0};
    for (const float value : mean(given)) ASSERT_EQ(value, 0);
  });
}

TEST_P(Meeting, RefusesWhatOneSenderGarbled) {
  with_each_stage([&] {
    Given given = give(3);
    given.bytes[1].pop_back();
    Values out(kCount);
    const auto result = mean_of(spec_, *codec_, given.encoded(), out);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  });
}

TEST_P(Meeting, GoesBackToAllWithinTheBoundOrExactly) {
  with_each_stage([&] {
    const BroadcastCodec back = make_broadcast_codec(spec_);
    for (std::uint32_t senders = 1; senders <= 5; ++senders) {
      const Values means = mean(give(senders));
      const Values out = there_and_back(*back.codec, means, {.step = 3, .rank = 0xFFFFFFFF});
      const bool exact = is_sparse() || spec_.vote;
      EXPECT_FALSE(exact && back.feedback);
      if (exact) {
        ASSERT_EQ(out, means) << senders;
      } else {
        expect_within_bounds(spec_, means, out);
      }
    }
  });
}

TEST_P(Meeting, GoesBackWithFeedbackIfSomethingIsLost) {
  with_each_stage([&] {
    const bool exact = is_sparse() || spec_.vote;
    EXPECT_EQ(make_broadcast_codec(spec_).feedback, spec_.feedback && !exact);
  });
}

TEST_P(Meeting, ShowsOddValuesToAll) {
  with_each_stage([&] {
    const BroadcastCodec back = make_broadcast_codec(spec_);
    Values gradient = normal_values(kCount, 1);
    gradient[333] = std::numeric_limits<float>::quiet_NaN();
    const Bytes odd = encode(*codec_, gradient);
    const Bytes other = encode(*codec_, normal_values(kCount, 2));
    const Encoded senders[] = {{.bytes = odd, .weight = 3}, {.bytes = other, .weight = 3}};
    Values means(kCount);
    ASSERT_TRUE(mean_of(spec_, *codec_, senders, means));
    EXPECT_FALSE(std::isfinite(means[333]));
    EXPECT_FALSE(std::isfinite(there_and_back(*back.codec, means)[333]));
  });
}

INSTANTIATE_TEST_SUITE_P(All, Meeting, testing::ValuesIn(codec_texts()), codec_test_name);

// All codecs that take back=: the sizes and errors of int8 in blocks of 256 values, and of bf16.
TEST(BroadcastOf, TheNamedEncodingHasItsSizeAndError) {
  constexpr std::size_t kCount = 1500;
  constexpr std::size_t kBlocks = 6;
  const Values mean = normal_values(kCount, 1);
  for (const std::string codec :
       {"fp8", "qsgd", "ternary", "natural", "onebit", "sign", "onebit-adam"}) {
    SCOPED_TRACE(codec);
    const BroadcastCodec int8 = make_broadcast_codec(spec_of(codec + ":back=int8"));
    const Bytes bytes = encode(*int8.codec, mean);
    EXPECT_EQ(bytes.size(), kCount + 4 * kBlocks);
    expect_within_bounds(spec_of("int8"), mean, decode(*int8.codec, bytes, kCount));
    EXPECT_TRUE(int8.feedback);
    const BroadcastCodec bf16 = make_broadcast_codec(spec_of(codec + ":back=bf16"));
    const Bytes halves = encode(*bf16.codec, mean);
    EXPECT_EQ(halves.size(), 2 * kCount);
    expect_within_bounds(spec_of("bf16"), mean, decode(*bf16.codec, halves, kCount));
    const plan::CodecSpec spec = spec_of(codec + ":back=same");
    EXPECT_EQ(encode(*make_broadcast_codec(spec).codec, mean), encode(*make_codec(spec), mean));
  }
}

// All ranks know the indices already, so the mean is sent without them.
TEST(RandkMeeting, GoesBackInAsManyBytesAsItCame) {
  const plan::CodecSpec spec = spec_of("randk:0.1");
  const auto codec = make_codec(spec);
  const Bytes one = encode(*codec, normal_values(1500, 1), {.step = 3, .rank = 1});
  const Bytes two = encode(*codec, normal_values(1500, 2), {.step = 3, .rank = 2});
  const Encoded senders[] = {{.bytes = one, .weight = 3}, {.bytes = two, .weight = 5}};
  Values mean(1500);
  ASSERT_TRUE(mean_of(spec, *codec, senders, mean));
  const Bytes back =
      encode(*make_broadcast_codec(spec).codec, mean, {.step = 3, .rank = 0xFFFFFFFF});
  EXPECT_EQ(back.size(), one.size());
}

}  // namespace
}  // namespace tally::codec
