#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "kernel/array/array_test_support.h"
#include "kernel/quantize/quantize.h"

namespace tally::kernel {
namespace {

// Random bit patterns: every exponent, subnormal numbers, infinities and NaN.
std::vector<float> any_values(std::size_t count, Rng& rng) {
  std::vector<float> values(count);
  for (float& value : values) {
    auto bits = static_cast<std::uint32_t>(rng.next());
    // Favour the lowest and the highest exponents, and values without mantissa bits.
    if (rng.below(4) == 0) bits &= 0x807FFFFFU;
    if (rng.below(4) == 0) bits |= 0x7F000000U;
    if (rng.below(4) == 0) bits &= 0xFF800000U;
    value = std::bit_cast<float>(bits);
  }
  return values;
}

TEST(QuantizeNatural, EveryLengthAndAddressIsAsTheReference) {
  constexpr float kWeight = 0.7F;
  Rng rng(8);
  const NaturalBytes& reference = quantize_reference().natural;
  for (std::size_t count = 0; count <= 1000; ++count) {
    const auto values = any_values(count, rng);
    const RandomKey key{.low = static_cast<std::uint32_t>(rng.next()),
                        .high = static_cast<std::uint32_t>(rng.next())};
    const std::size_t sign_bytes = (count + 7) / 8;
    const std::size_t shift = count % 64;
    // One guard byte at the end.
    std::vector<std::byte> expected(shift + count + sign_bytes + 1, std::byte{0x5A});
    reference.encode(values.data(), count, key, expected.data() + shift,
                     expected.data() + shift + count);
    const auto into = random_array<float>(count, count % 16, rng);
    auto decoded = into;
    auto added = into;
    reference.decode(expected.data() + shift, expected.data() + shift + count, count, nullptr,
                     decoded.data());
    reference.decode(expected.data() + shift, expected.data() + shift + count, count, &kWeight,
                     added.data());
    for (const Level level : available_levels()) {
      const NaturalBytes& loops = quantize_kernels(level).natural;
      std::vector<std::byte> bytes(expected.size(), std::byte{0x5A});
      std::byte* exponents = bytes.data() + shift;
      std::byte* signs = exponents + count;
      loops.encode(values.data(), count, key, exponents, signs);
      ASSERT_EQ(bytes, expected) << to_string(level) << " " << count;
      auto out = into;
      auto sum = into;
      loops.decode(exponents, signs, count, nullptr, out.data());
      loops.decode(exponents, signs, count, &kWeight, sum.data());
      ASSERT_TRUE(out.same_as(decoded)) << to_string(level) << " " << count;
      ASSERT_TRUE(sum.same_as(added)) << to_string(level) << " " << count;
    }
  }
}

// Every pair of exponent and sign byte, because a peer may send any of them.
TEST(QuantizeNatural, EveryPairOfBytesDecodesAsTheReference) {
  std::vector<std::byte> exponents(512);
  std::vector<std::byte> signs(64);
  for (std::size_t i = 0; i < 512; ++i) {
    exponents[i] = static_cast<std::byte>(i / 2);
    if (i % 2 == 1) signs[i / 8] |= std::byte{1} << (i % 8);
  }
  std::vector<float> expected(512);
  quantize_reference().natural.decode(exponents.data(), signs.data(), 512, nullptr,
                                      expected.data());
  for (const Level level : available_levels()) {
    std::vector<float> out(512);
    quantize_kernels(level).natural.decode(exponents.data(), signs.data(), 512, nullptr,
                                           out.data());
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), 512 * 4), 0) << to_string(level);
  }
}

}  // namespace
}  // namespace tally::kernel
