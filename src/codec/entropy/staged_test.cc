#include <gtest/gtest.h>

#include <cstring>

#include "codec/entropy/test_sources.h"
#include "codec/families.h"
#include "wire/little_endian.h"

namespace tally::codec {
namespace {

// Encodes integers from -128 to 127 as one byte each.
class TestCodec final : public Codec {
 public:
  Traits traits() const override { return {.unbiased = true, .fixed_size = true, .exact = true}; }
  std::size_t max_bytes(std::size_t count) const override { return count; }
  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    for (std::size_t i = 0; i < values.size(); ++i)
      out[i] = static_cast<std::byte>(static_cast<int>(values[i]));
    return values.size();
  }
  Result<void> read(std::span<const std::byte> bytes, const float* weight,
                    std::span<float> out) const override {
    if (bytes.size() != out.size()) return corrupt_code("wrong size");
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto value = static_cast<float>(static_cast<signed char>(bytes[i]));
      out[i] = weight == nullptr ? value : out[i] + *weight * value;
    }
    return {};
  }
};

class StagedTest : public testing::TestWithParam<plan::EntropyStage> {
 protected:
  std::unique_ptr<Codec> make() const {
    return make_staged(std::make_unique<TestCodec>(), GetParam());
  }
  static std::vector<float> values(std::size_t count, double deviation) {
    std::vector<float> values;
    for (const std::byte byte : draw_bytes(rounded_normal(deviation), count, 2))
      values.push_back(static_cast<float>(static_cast<signed char>(byte)));
    return values;
  }
  static Bytes encoded(const Codec& codec, const std::vector<float>& in) {
    Bytes bytes(codec.max_bytes(in.size()));
    bytes.resize(codec.encode(in, {}, bytes));
    return bytes;
  }
};

TEST_P(StagedTest, ValuesComeBackInFewerBytes) {
  const auto codec = make();
  const std::vector<float> in = values(20000, 3);
  const Bytes bytes = encoded(*codec, in);
  EXPECT_LT(bytes.size(), in.size() * 6 / 10);
  EXPECT_EQ(bytes[0], std::byte{1});
  std::vector<float> out(in.size());
  ASSERT_TRUE(codec->decode(bytes, out));
  EXPECT_EQ(out, in);
  ASSERT_TRUE(codec->decode_add(bytes, 2, out));
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], 3 * in[i]);
}

TEST_P(StagedTest, WhatDoesNotGetSmallerIsStored) {
  const auto codec = make();
  std::vector<float> in;
  Rng rng(1);
  for (int i = 0; i < 3000; ++i)
    in.push_back(static_cast<float>(static_cast<int>(rng.below(256)) - 128));
  for (const std::size_t count : {0U, 1U, 5U, 3000U}) {
    in.resize(count);
    const Bytes bytes = encoded(*codec, in);
    EXPECT_EQ(bytes.size(), count + 5);
    EXPECT_EQ(bytes[0], std::byte{0});
    std::vector<float> out(count);
    ASSERT_TRUE(codec->decode(bytes, out));
    EXPECT_EQ(out, in);
    in.assign(3000, 0);
    for (float& value : in) value = static_cast<float>(static_cast<int>(rng.below(256)) - 128);
  }
}

TEST_P(StagedTest, ASizeAboveTheInnerCodecsIsRefused) {
  const auto codec = make();
  Bytes bytes = encoded(*codec, values(2000, 3));
  std::vector<float> out(1999);
  EXPECT_FALSE(codec->decode(bytes, out));
  out.resize(2000);
  wire::store(std::span(bytes), 1, std::uint32_t{0xFFFFFFFF});
  EXPECT_FALSE(codec->decode(bytes, out));
  wire::store(std::span(bytes), 1, std::uint32_t{1999});
  EXPECT_FALSE(codec->decode(bytes, out));
}

TEST_P(StagedTest, UnknownModesAndCutHeadsAreRefused) {
  const auto codec = make();
  Bytes bytes = encoded(*codec, values(2000, 3));
  std::vector<float> out(2000);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(codec->decode(std::span(bytes).first(size), out)) << size;
  for (const int mode : {0, 2, 255}) {
    bytes[0] = static_cast<std::byte>(mode);
    EXPECT_FALSE(codec->decode(bytes, out)) << mode;
  }
}

TEST_P(StagedTest, IsAsTrueAsWhatIsInsideButNotOfFixedSize) {
  const Traits traits = make()->traits();
  EXPECT_TRUE(traits.unbiased);
  EXPECT_TRUE(traits.exact);
  EXPECT_FALSE(traits.fixed_size);
}

INSTANTIATE_TEST_SUITE_P(All, StagedTest,
                         testing::Values(plan::EntropyStage::kRans, plan::EntropyStage::kHuffman,
                                         plan::EntropyStage::kZstd));

}  // namespace
}  // namespace tally::codec
