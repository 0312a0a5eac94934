#include "kernel/quantize/quantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernel/array/array_test_support.h"

namespace tally::kernel {
namespace {

using QuantizeBytes = std::vector<std::byte>;

struct Format {
  const char* name;
  ScaledBytes QuantizeKernels::*loops;
  float top;
};
constexpr Format kFormats[] = {{"int8", &QuantizeKernels::int8, 127},
                               {"e4m3", &QuantizeKernels::e4m3, 448},
                               {"e5m2", &QuantizeKernels::e5m2, 57344}};

// `count` bytes that start `shift` bytes past a cache line, between guard bytes.
class Area {
 public:
  Area(std::size_t count, std::size_t shift) : bytes_(count + 256, std::byte{0x5A}) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    first_ = 64 + (64 - address % 64) + shift;
    end_ = first_ + count;
  }
  std::byte* data() { return bytes_.data() + first_; }
  QuantizeBytes content() const {
    return {bytes_.begin() + static_cast<long>(first_), bytes_.begin() + static_cast<long>(end_)};
  }
  bool untouched_around() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      if ((i < first_ || i >= end_) && bytes_[i] != std::byte{0x5A}) return false;
    return true;
  }

 private:
  QuantizeBytes bytes_;
  std::size_t first_ = 0;
  std::size_t end_ = 0;
};

constexpr float kQuantizeWeight = 0.7F;

std::size_t blocks_of(std::size_t count, std::size_t block) { return (count + block - 1) / block; }

// Ordinary blocks mixed with tiny, huge and zero blocks and blocks with NaN or infinity.
std::vector<float> mixed_values(std::size_t count, std::size_t block, Rng& rng) {
  std::vector<float> values(count);
  float factor = 1;
  std::uint64_t kind = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % block == 0) {
      factor = std::ldexp(1.0F, static_cast<int>(rng.below(260)) - 149);
      kind = rng.below(8);
    }
    const auto value = static_cast<float>(rng.uniform() * 2 - 1);
    values[i] = kind == 0 ? 0 : kind == 1 ? random_value<float>(rng, true) : value * factor;
    // Multiples of half a step, which are ties of the rounding.
    if (kind == 2) values[i] = static_cast<float>(rng.below(255)) * 0.5F - 63.5F;
  }
  return values;
}

struct Encoded {
  QuantizeBytes scales;
  QuantizeBytes codes;
};
Encoded encoded(const ScaledBytes& loops, const std::vector<float>& values, std::size_t block) {
  Encoded result{QuantizeBytes(4 * blocks_of(values.size(), block)), QuantizeBytes(values.size())};
  loops.encode(values.data(), values.size(), block, result.scales.data(), result.codes.data());
  return result;
}

TEST(Quantize, LengthsUpToAThousandEncodeAsTheReference) {
  Rng rng(3);
  for (const Format& format : kFormats) {
    for (std::size_t count = 0; count <= 1000; count += count < 200 ? 1 : 13) {
      const std::size_t block = count % 3 == 0 ? 64 : 16 + count % 50;
      const auto values = mixed_values(count, block, rng);
      const Encoded expected = encoded(quantize_reference().*format.loops, values, block);
      for (const Level level : available_levels()) {
        const Encoded actual = encoded(quantize_kernels(level).*format.loops, values, block);
        ASSERT_EQ(actual.scales, expected.scales) << to_string(level) << format.name << count;
        ASSERT_EQ(actual.codes, expected.codes) << to_string(level) << format.name << count;
      }
    }
  }
}

// Decoding adds exactly weight * value.
TEST(Quantize, LengthsUpToAThousandDecodeAsTheReference) {
  Rng rng(4);
  for (const Format& format : kFormats) {
    const ScaledBytes& reference = quantize_reference().*format.loops;
    for (std::size_t count = 0; count <= 1000; count += count < 200 ? 1 : 13) {
      const std::size_t block = count % 3 == 0 ? 64 : 16 + count % 50;
      const Encoded from = encoded(reference, mixed_values(count, block, rng), block);
      const auto into = random_array<float>(count, 3, rng);
      auto decoded = into;
      auto added = into;
      reference.decode(from.scales.data(), from.codes.data(), count, block, nullptr,
                       decoded.data());
      reference.decode(from.scales.data(), from.codes.data(), count, block, &kQuantizeWeight,
                       added.data());
      for (const Level level : available_levels()) {
        const ScaledBytes& loops = quantize_kernels(level).*format.loops;
        auto out = into;
        auto sum = into;
        ASSERT_TRUE(loops.valid(from.scales.data(), from.codes.data(), count, block));
        loops.decode(from.scales.data(), from.codes.data(), count, block, nullptr, out.data());
        loops.decode(from.scales.data(), from.codes.data(), count, block, &kQuantizeWeight,
                     sum.data());
        ASSERT_TRUE(out.same_as(decoded)) << to_string(level) << format.name << count;
        ASSERT_TRUE(sum.same_as(added)) << to_string(level) << format.name << count;
      }
    }
  }
}

TEST(Quantize, BytesMayLieAtAnyAddress) {
  Rng rng(5);
  constexpr std::size_t kBlock = 32;
  for (const Format& format : kFormats) {
    for (std::size_t shift = 0; shift < 64; ++shift) {
      const std::size_t count = 100 + shift;
      const auto values = mixed_values(count, kBlock, rng);
      const Encoded expected = encoded(quantize_reference().*format.loops, values, kBlock);
      std::vector<float> decoded(count);
      (quantize_reference().*format.loops)
          .decode(expected.scales.data(), expected.codes.data(), count, kBlock, nullptr,
                  decoded.data());
      for (const Level level : available_levels()) {
        const ScaledBytes& loops = quantize_kernels(level).*format.loops;
        Area scales(expected.scales.size(), shift);
        Area codes(count, 63 - shift);
        Area from(count * 4, shift / 4 * 4);
        Area to(count * 4, 60 - shift / 4 * 4);
        std::memcpy(from.data(), values.data(), count * 4);
        loops.encode(reinterpret_cast<const float*>(from.data()), count, kBlock, scales.data(),
                     codes.data());
        loops.decode(scales.data(), codes.data(), count, kBlock, nullptr,
                     reinterpret_cast<float*>(to.data()));
        ASSERT_EQ(scales.content(), expected.scales) << to_string(level) << format.name << shift;
        ASSERT_EQ(codes.content(), expected.codes) << to_string(level) << format.name << shift;
        ASSERT_EQ(std::memcmp(to.data(), decoded.data(), count * 4), 0) << to_string(level);
        ASSERT_TRUE(scales.untouched_around() && codes.untouched_around() && to.untouched_around());
      }
    }
  }
}

// With a scale of 1, every valid code decodes to a value that encodes to the same code.
TEST(Quantize, EveryCodeComesBack) {
  for (const Format& format : kFormats) {
    for (const Level level : available_levels()) {
      const ScaledBytes& loops = quantize_kernels(level).*format.loops;
      const float one = 1;
      QuantizeBytes scale(4);
      std::memcpy(scale.data(), &one, 4);
      QuantizeBytes codes;
      for (int code = 0; code < 256; ++code) {
        const auto byte = static_cast<std::byte>(code);
        if (loops.valid(scale.data(), &byte, 1, 1)) codes.push_back(byte);
      }
      ASSERT_EQ(codes.size(), format.top == 127 ? 255U : format.top == 448 ? 254U : 248U);
      std::vector<float> values(codes.size());
      loops.decode(scale.data(), codes.data(), codes.size(), 256, nullptr, values.data());
      ASSERT_EQ(*std::max_element(values.begin(), values.end()), format.top);
      const Encoded again = encoded(loops, values, 256);
      EXPECT_EQ(again.scales, scale) << to_string(level) << format.name;
      EXPECT_EQ(again.codes, codes) << to_string(level) << format.name;
    }
  }
}

// The floats around every midpoint of a format. The reference searches for the nearest number.
TEST(Quantize, RoundingTurnsInTheMiddle) {
  for (const Format& format : kFormats) {
    const ScaledBytes& reference = quantize_reference().*format.loops;
    std::vector<float> values = {format.top};
    QuantizeBytes scale(4);
    const float one = 1;
    std::memcpy(scale.data(), &one, 4);
    std::vector<float> numbers;
    for (int code = 0; code < 256; ++code) {
      const auto byte = static_cast<std::byte>(code);
      float value = 0;
      if (!reference.valid(scale.data(), &byte, 1, 1)) continue;
      reference.decode(scale.data(), &byte, 1, 1, nullptr, &value);
      numbers.push_back(value);
    }
    std::sort(numbers.begin(), numbers.end());
    for (std::size_t n = 1; n < numbers.size(); ++n) {
      const float middle = (numbers[n - 1] + numbers[n]) / 2;
      for (const float value :
           {middle, std::nextafter(middle, -HUGE_VALF), std::nextafter(middle, HUGE_VALF)})
        values.push_back(value);
    }
    const Encoded expected = encoded(reference, values, values.size());
    ASSERT_EQ(expected.scales, scale);
    for (const Level level : available_levels())
      EXPECT_EQ(encoded(quantize_kernels(level).*format.loops, values, values.size()).codes,
                expected.codes)
          << to_string(level) << format.name;
  }
}

// The largest float32 decodes to a finite number.
TEST(Quantize, NothingOverflows) {
  for (const Format& format : kFormats) {
    float value = std::numeric_limits<float>::max();
    for (int i = 0; i < 100000; ++i, value = std::nextafter(value, 0.0F)) {
      const ScaledBytes& loops = quantize_kernels().*format.loops;
      const Encoded from = encoded(loops, {value, -value}, 2);
      float back[2];
      ASSERT_TRUE(loops.valid(from.scales.data(), from.codes.data(), 2, 2));
      loops.decode(from.scales.data(), from.codes.data(), 2, 2, nullptr, back);
      ASSERT_NEAR(back[0] / value, 1, 1e-6) << format.name;
      ASSERT_EQ(back[1], -back[0]);
    }
  }
}

TEST(Quantize, ScalesAndCodesThatNoEncodingHasAreRefused) {
  using Limits = std::numeric_limits<float>;
  for (const Format& format : kFormats) {
    const float wrong_scales[] = {-1,
                                  -0.0F,
                                  Limits::denorm_min(),
                                  Limits::infinity(),
                                  Limits::max(),
                                  std::bit_cast<float>(0x7FC00001U),
                                  std::bit_cast<float>(0xFFC00000U)};
    const int unused = format.top == 127 ? 0x80 : format.top == 448 ? 0xFF : 0x7C;
    for (const Level level : available_levels()) {
      const ScaledBytes& loops = quantize_kernels(level).*format.loops;
      Encoded good = encoded(loops, std::vector<float>(200, 1.0F), 50);
      const auto valid = [&](const Encoded& e) {
        return loops.valid(e.scales.data(), e.codes.data(), 200, 50);
      };
      ASSERT_TRUE(valid(good));
      for (const float scale : wrong_scales) {
        Encoded bad = good;
        std::memcpy(bad.scales.data() + 12, &scale, 4);
        EXPECT_FALSE(valid(bad)) << to_string(level) << format.name << scale;
      }
      for (std::size_t i = 0; i < 200; ++i) {
        Encoded bad = good;
        bad.codes[i] = static_cast<std::byte>(unused);
        EXPECT_FALSE(valid(bad)) << to_string(level) << format.name << i;
      }
    }
  }
}

}  // namespace
}  // namespace tally::kernel
