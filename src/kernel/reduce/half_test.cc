#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "kernel/reduce/reduce.h"

namespace tally::kernel {
namespace {

constexpr DataType kHalves[] = {DataType::kFloat16, DataType::kBFloat16};

std::vector<std::uint16_t> every_half() {
  std::vector<std::uint16_t> halves(65536);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  return halves;
}

std::vector<std::uint32_t> widened(const Kernels& kernels, DataType type,
                                   const std::vector<std::uint16_t>& halves) {
  std::vector<float> values(halves.size());
  kernels.widen(type, halves.data(), values.data(), halves.size());
  std::vector<std::uint32_t> bits(halves.size());
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = std::bit_cast<std::uint32_t>(values[i]);
  return bits;
}

std::vector<std::uint16_t> narrowed(const Kernels& kernels, DataType type,
                                    const std::vector<std::uint32_t>& bits) {
  std::vector<float> values(bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) values[i] = std::bit_cast<float>(bits[i]);
  std::vector<std::uint16_t> halves(bits.size());
  kernels.narrow(type, values.data(), halves.data(), values.size());
  return halves;
}

// The floats around all half values and around all midpoints between them, where rounding changes,
// and random bits. The count is odd, so that the last elements take the scalar loop.
std::vector<std::uint32_t> many_floats(DataType type) {
  std::vector<std::uint32_t> bits;
  const std::vector<std::uint32_t> values = widened(reference_kernels(), type, every_half());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t next = i + 1 < values.size() ? values[i + 1] : values[i];
    const std::uint32_t middle = values[i] + (next - values[i]) / 2;
    for (const std::uint32_t center : {values[i], middle}) {
      for (const std::uint32_t off : {0U, 1U, ~0U}) bits.push_back(center + off);
    }
  }
  Rng rng(5);
  while (bits.size() < 1'000'003) bits.push_back(static_cast<std::uint32_t>(rng.next()));
  return bits;
}

TEST(Half, KnownValuesConvertBothWays) {
  struct Known {
    DataType type;
    float value;
    std::uint16_t half;
  };
  const Known known[] = {
      {DataType::kFloat16, 1.0F, 0x3C00},      {DataType::kFloat16, -2.0F, 0xC000},
      {DataType::kFloat16, 65504.0F, 0x7BFF},  {DataType::kFloat16, 0x1p-14F, 0x0400},
      {DataType::kFloat16, 0x1p-24F, 0x0001},  {DataType::kFloat16, -0.0F, 0x8000},
      {DataType::kFloat16, INFINITY, 0x7C00},  {DataType::kBFloat16, 1.0F, 0x3F80},
      {DataType::kBFloat16, -0.0F, 0x8000},    {DataType::kBFloat16, 0x1p-133F, 0x0001},
      {DataType::kBFloat16, INFINITY, 0x7F80}, {DataType::kBFloat16, 3.140625F, 0x4049},
  };
  std::vector<const Kernels*> all = {&reference_kernels()};
  for (const Level level : available_levels()) all.push_back(&kernels(level));
  for (const Kernels* k : all) {
    for (const Known& one : known) {
      std::uint16_t half = 0;
      float value = 0;
      k->narrow(one.type, &one.value, &half, 1);
      k->widen(one.type, &one.half, &value, 1);
      EXPECT_EQ(half, one.half) << one.value;
      EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(one.value));
    }
  }
}

TEST(Half, EveryValueWidensAsTheReferenceAndComesBack) {
  const auto halves = every_half();
  for (const DataType type : kHalves) {
    const int infinity = type == DataType::kFloat16 ? 0x7C00 : 0x7F80;
    const int quiet = type == DataType::kFloat16 ? 0x0200 : 0x0040;
    for (const Level level : available_levels()) {
      const auto bits = widened(kernels(level), type, halves);
      ASSERT_EQ(bits, widened(reference_kernels(), type, halves)) << to_string(level);
      const auto back = narrowed(kernels(level), type, bits);
      for (int half = 0; half < 65536; ++half) {
        const bool nan = (half & 0x7FFF) > infinity;
        ASSERT_EQ(back[static_cast<std::size_t>(half)], nan ? half | quiet : half)
            << to_string(level) << " " << to_string(type);
      }
    }
  }
}

TEST(Half, NarrowingRoundsAsTheReference) {
  for (const DataType type : kHalves) {
    const auto bits = many_floats(type);
    const auto expected = narrowed(reference_kernels(), type, bits);
    for (const Level level : available_levels()) {
      const auto actual = narrowed(kernels(level), type, bits);
      for (std::size_t i = 0; i < bits.size(); ++i) {
        ASSERT_EQ(actual[i], expected[i])
            << to_string(level) << " " << to_string(type) << " of bits " << bits[i];
      }
    }
  }
}

// The last elements of a call use narrower vectors. Every width must give the same result.
TEST(Half, EveryCountConvertsAsTheReference) {
  const auto bits = many_floats(DataType::kFloat16);
  for (const DataType type : kHalves) {
    for (const Level level : available_levels()) {
      for (std::size_t count = 0; count <= 100; ++count) {
        const auto first = bits.begin() + static_cast<std::ptrdiff_t>(count * 1000);
        const std::vector<std::uint32_t> some(first, first + static_cast<std::ptrdiff_t>(count));
        const auto halves = narrowed(reference_kernels(), type, some);
        ASSERT_EQ(narrowed(kernels(level), type, some), halves) << to_string(level);
        ASSERT_EQ(widened(kernels(level), type, halves),
                  widened(reference_kernels(), type, halves));
      }
    }
  }
}

}  // namespace
}  // namespace tally::kernel
