#include "codec/families.h"
#include "codec/quantize/lowbit_test_support.h"

namespace tally::codec {
namespace {

const plan::CodecSpec kOnebit = {.kind = plan::Codec::kOnebit, .block = 32};
const plan::CodecSpec kVote = {.kind = plan::Codec::kSign, .block = 32, .vote = true};

// The gradients of several senders, encoded and decoded.
struct Senders {
  std::vector<ByteVector> bytes;
  std::vector<Values> values;
  std::vector<double> weights;

  std::vector<Encoded> encoded() const {
    std::vector<Encoded> all;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      all.push_back({.bytes = bytes[i], .weight = weights[i]});
    return all;
  }
  void add(const Codec& codec, const Values& gradient, double weight) {
    bytes.push_back(encode_at(codec, gradient, 0));
    values.push_back(decode_at(codec, bytes.back(), gradient.size()));
    weights.push_back(weight);
  }
};

Values mean_of_bytes(const plan::CodecSpec& spec, const Codec& codec, const Senders& senders,
                     std::size_t count) {
  Values mean(count, 77.0F);
  EXPECT_TRUE(mean_of(spec, codec, senders.encoded(), mean).has_value());
  return mean;
}

Values mean_of_values(const plan::CodecSpec& spec, const Senders& senders, std::size_t count) {
  Values mean(count, 77.0F);
  std::vector<const float*> decoded;
  for (const Values& values : senders.values) decoded.push_back(values.data());
  mean_of_decoded(spec, decoded, senders.weights, mean);
  return mean;
}

// Counts signs one by one, and averages magnitudes in double.
Values plain_vote(const Senders& senders, std::size_t count) {
  double whole = 0;
  for (const double weight : senders.weights) whole += weight;
  Values out(count);
  for (std::size_t i = 0; i < count; ++i) {
    int ahead = 0;
    double magnitude = 0;
    for (std::size_t s = 0; s < senders.values.size(); ++s) {
      if (senders.weights[s] == 0) continue;
      const auto value = static_cast<double>(senders.values[s][i]);
      ahead += value > 0 ? 1 : value < 0 ? -1 : 0;
      magnitude += senders.weights[s] / whole * std::fabs(value);
    }
    out[i] = static_cast<float>(ahead > 0 ? magnitude : ahead < 0 ? -magnitude : 0);
  }
  return out;
}

void expect_near(const Values& got, const Values& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], 1e-5F * std::fabs(wanted[i])) << i;
}

TEST(MeanOf, IsTheMeanByWeight) {
  const auto codec = make_onebit(4);
  Senders senders;
  senders.add(*codec, Values(4, 1.0F), 3);
  senders.add(*codec, Values(4, -5.0F), 1);
  senders.add(*codec, Values(4, 100.0F), 0);
  EXPECT_EQ(mean_of_bytes({.kind = plan::Codec::kOnebit, .block = 4}, *codec, senders, 4),
            Values(4, -0.5F));
}

TEST(MeanOf, OfBytesAndOfValuesHaveTheSameBits) {
  Rng rng(1);
  const auto codec = make_onebit(32);
  for (std::size_t voters = 0; voters <= 20; ++voters) {
    Senders senders;
    for (std::size_t i = 0; i < voters; ++i) {
      Values gradient = odd_values(500, rng);
      if (i == 3) gradient[40] = kNan;
      if (i % 5 == 4) std::fill(gradient.begin(), gradient.end(), -0.0F);
      senders.add(*codec, gradient, static_cast<double>(rng.below(4)));
    }
    EXPECT_TRUE(same_bits(mean_of_bytes(kOnebit, *codec, senders, 500),
                          mean_of_values(kOnebit, senders, 500)));
  }
}

TEST(MeanOf, IsZeroWithoutWeights) {
  const auto codec = make_onebit(32);
  for (const auto& spec : {kOnebit, kVote}) {
    Senders senders;
    EXPECT_EQ(mean_of_bytes(spec, *codec, senders, 50), Values(50, 0.0F));
    senders.add(*codec, Values(50, 1.0F), 0);
    EXPECT_EQ(mean_of_bytes(spec, *codec, senders, 50), Values(50, 0.0F));
    EXPECT_EQ(mean_of_values(spec, senders, 50), Values(50, 0.0F));
  }
}

TEST(MeanOf, DoesNotLookAtBytesWithoutWeight) {
  Values mean(50);
  const std::vector<Encoded> senders = {{.bytes = {}, .weight = 0}};
  for (const auto& spec : {kOnebit, kVote})
    EXPECT_TRUE(mean_of(spec, *make_sign(32), senders, mean).has_value());
}

TEST(MeanOf, RefusesCorruptBytesAndWeightsThatCannotBe) {
  const auto sign = make_sign(32);
  const auto onebit = make_onebit(32);
  const ByteVector short_one(3);
  const ByteVector good = encode_at(*sign, Values(50, 1.0F), 0);
  Values mean(50);
  const auto code_of = [&](const plan::CodecSpec& spec, const Codec& codec, const Encoded& sender) {
    const auto result = mean_of(spec, codec, std::vector<Encoded>{sender}, mean);
    return result.has_value() ? ErrorCode::kSystem : result.error().code;
  };
  EXPECT_EQ(code_of(kOnebit, *onebit, {.bytes = short_one}), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of(kVote, *sign, {.bytes = short_one}), ErrorCode::kCorrupt);
  for (const double weight : {-1.0, std::nan(""), HUGE_VAL})
    EXPECT_EQ(code_of(kVote, *sign, {.bytes = good, .weight = weight}), ErrorCode::kCorrupt);
}

// Blocks of 32 values (whole bytes), of 9 values (not whole bytes), and of 600 values (one block);
// with and without blocks in which some voters are silent.
TEST(Vote, IsAPlainCountFor1To65Voters) {
  Rng rng(2);
  for (const std::size_t block : {32, 9, 600}) {
    plan::CodecSpec spec = kVote;
    spec.block = block;
    const auto codec = make_sign(block);
    for (std::size_t voters = 1; voters <= 65; ++voters) {
      Senders senders;
      for (std::size_t i = 0; i < voters; ++i) {
        Values gradient = random_values(600, rng);
        if (voters % 2 == 0 && i % 3 == 1) std::fill_n(gradient.begin() + 40, 100, 0.0F);
        senders.add(*codec, gradient, static_cast<double>(1 + rng.below(5)));
      }
      const Values mean = mean_of_bytes(spec, *codec, senders, 600);
      expect_near(mean, plain_vote(senders, 600));
      EXPECT_TRUE(same_bits(mean, mean_of_values(spec, senders, 600))) << voters;
    }
  }
}

TEST(Vote, ATieIsZeroAndWeightsDoNotVote) {
  const auto codec = make_sign(32);
  Senders senders;
  senders.add(*codec, Values(50, 1.0F), 1);
  senders.add(*codec, Values(50, -3.0F), 3);
  EXPECT_EQ(mean_of_bytes(kVote, *codec, senders, 50), Values(50, 0.0F));
  senders.add(*codec, Values(50, 1.0F), 4);
  EXPECT_EQ(mean_of_bytes(kVote, *codec, senders, 50), Values(50, 1.75F));
}

TEST(Vote, WhoHasOnlyZerosInABlockHasNoVoteThere) {
  const auto codec = make_sign(32);
  Senders senders;
  senders.add(*codec, Values(64, 0.0F), 1);
  senders.add(*codec, Values(64, -0.0F), 1);
  Values half(64, -4.0F);
  std::fill_n(half.begin(), 32, 0.0F);
  senders.add(*codec, half, 2);
  Values expected(64, -2.0F);
  std::fill_n(expected.begin(), 32, 0.0F);
  EXPECT_EQ(mean_of_bytes(kVote, *codec, senders, 64), expected);
  EXPECT_EQ(mean_of_values(kVote, senders, 64), expected);
}

TEST(Vote, ABlockThatIsNotFiniteOfOneSenderIsNotFinite) {
  const auto codec = make_sign(32);
  Senders senders;
  Values bad(96, 1.0F);
  bad[40] = kInf;
  senders.add(*codec, bad, 1);
  senders.add(*codec, Values(96, -1.0F), 1);
  const Values mean = mean_of_bytes(kVote, *codec, senders, 96);
  for (std::size_t i = 0; i < 96; ++i) EXPECT_EQ(std::isnan(mean[i]), i / 32 == 1);
  EXPECT_TRUE(same_bits(mean, mean_of_values(kVote, senders, 96)));
}

TEST(Vote, BehindAnotherStageItIsTheSame) {
  Rng rng(3);
  const auto sign = make_sign(32);
  for (const auto stage :
       {plan::EntropyStage::kRans, plan::EntropyStage::kHuffman, plan::EntropyStage::kZstd}) {
    const auto staged = make_staged(make_sign(32), stage);
    plan::CodecSpec spec = kVote;
    spec.stage = stage;
    Senders plain, packed;
    for (int i = 0; i < 12; ++i) {
      Values gradient = odd_values(333, rng);
      if (i % 2 == 0) std::fill_n(gradient.begin() + 50, 64, 0.0F);
      if (i == 5) gradient[200] = kNan;
      const auto weight = static_cast<double>(rng.below(3));
      plain.add(*sign, gradient, weight);
      packed.add(*staged, gradient, weight);
    }
    EXPECT_TRUE(same_bits(mean_of_bytes(spec, *staged, packed, 333),
                          mean_of_bytes(kVote, *sign, plain, 333)));
    packed.weights[0] = 1;
    packed.bytes[0].clear();
    Values mean(333);
    EXPECT_FALSE(mean_of(spec, *staged, packed.encoded(), mean).has_value());
  }
}

TEST(Vote, FourThousandVotersAreTheMostThatAreCounted) {
  const auto codec = make_sign(32);
  const ByteVector bytes = encode_at(*codec, Values(32, -1.0F), 0);
  std::vector<Encoded> senders(4096, {.bytes = bytes});
  Values mean(32);
  ASSERT_TRUE(mean_of(kVote, *codec, senders, mean).has_value());
  EXPECT_NEAR(mean[31], -1.0F, 1e-4F);
  senders.push_back({.bytes = bytes});
  EXPECT_FALSE(mean_of(kVote, *codec, senders, mean).has_value());
}

}  // namespace
}  // namespace tally::codec
