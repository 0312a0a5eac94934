#include "kernel/reduce/reduce.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <limits>

#include "base/rng.h"

namespace tally::kernel {
namespace {

using ReduceBytes = std::vector<std::byte>;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};
constexpr DataType kTypes[] = {DataType::kFloat32,  DataType::kFloat64, DataType::kFloat16,
                               DataType::kBFloat16, DataType::kInt8,    DataType::kUInt8,
                               DataType::kInt32,    DataType::kInt64};

std::uint64_t load_bits(DataType type, const std::byte* from) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from, size_of(type));  // little endian
  return bits;
}

bool is_nan(DataType type, std::uint64_t bits) {
  switch (type) {
    case DataType::kFloat32:
      return (bits & 0x7FFFFFFFU) > 0x7F800000U;
    case DataType::kFloat64:
      return (bits & ~(1ULL << 63)) > 0x7FF0000000000000U;
    case DataType::kFloat16:
      return (bits & 0x7FFFU) > 0x7C00U;
    case DataType::kBFloat16:
      return (bits & 0x7FFFU) > 0x7F80U;
    default:
      return false;
  }
}

// A random value of `type`. Half of them are ordinary numbers. The others are random bits or
// special values: zeros, subnormals, the largest number, infinities, quiet and signalling NaN; for
// integers the limits of the range.
std::uint64_t random_bits(DataType type, Rng& rng) {
  const bool negative = rng.below(2) == 1;
  const double ordinary = (negative ? -4.0 : 4.0) * rng.uniform();
  const std::uint64_t kind = rng.below(8);
  const std::uint64_t odd = rng.below(8);
  const std::uint64_t any = rng.next();
  const auto pick = [&](std::uint64_t usual, std::uint64_t infinity, int width) {
    if (kind < 4) return usual;
    if (kind < 6) return any;
    const std::uint64_t magnitudes[] = {0,
                                        1,
                                        infinity >> 1,
                                        infinity - 1,
                                        infinity,
                                        infinity + 1,
                                        (infinity >> 5) - 1,
                                        infinity | infinity >> 1};
    return magnitudes[odd] | static_cast<std::uint64_t>(negative) << (width - 1);
  };
  const auto single = std::bit_cast<std::uint32_t>(static_cast<float>(ordinary));
  switch (type) {
    case DataType::kFloat32:
      return pick(single, 0x7F800000U, 32);
    case DataType::kFloat64:
      return pick(std::bit_cast<std::uint64_t>(ordinary), 0x7FF0000000000000U, 64);
    case DataType::kFloat16: {
      std::uint16_t half = 0;
      const auto value = static_cast<float>(ordinary);
      reference_kernels().narrow(type, &value, &half, 1);
      return pick(half, 0x7C00U, 16);
    }
    case DataType::kBFloat16:
      return pick(single >> 16, 0x7F80U, 16);
    default: {
      const std::uint64_t sign = 1ULL << (8 * size_of(type) - 1);
      return kind < 4 ? any % 8 : kind < 6 ? any : kind == 6 ? sign : sign - 1;
    }
  }
}

// `count` values that start `bytes_past` bytes past an aligned address.
struct Buffer {
  Buffer(DataType type, std::size_t count, std::size_t bytes_past, std::uint64_t seed)
      : bytes(count * size_of(type) + 64), shift(bytes_past) {
    Rng rng(seed);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t value = random_bits(type, rng);
      std::memcpy(data() + i * size_of(type), &value, size_of(type));
    }
  }
  std::byte* data() { return bytes.data() + shift; }
  const std::byte* data() const { return bytes.data() + shift; }

  ReduceBytes bytes;  // the guard bytes are compared as well
  std::size_t shift;
};

// Compares all bits, guards included; any NaN equals any other.
::testing::AssertionResult same(DataType type, const Buffer& actual, const Buffer& expected,
                                std::size_t count) {
  const std::size_t bytes = size_of(type) * count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t a = load_bits(type, actual.data() + i * size_of(type));
    const std::uint64_t b = load_bits(type, expected.data() + i * size_of(type));
    if (a == b || (is_nan(type, a) && is_nan(type, b))) continue;
    return ::testing::AssertionFailure()
           << fmt::format("element {} of {}: {:x}, expected {:x}", i, count, a, b);
  }
  for (std::size_t i = 0; i < actual.bytes.size(); ++i) {
    const bool inside = i >= actual.shift && i < actual.shift + bytes;
    if (!inside && actual.bytes[i] != expected.bytes[i]) {
      return ::testing::AssertionFailure() << "byte " << i << " outside was written";
    }
  }
  return ::testing::AssertionSuccess();
}

struct Call {
  std::size_t sources;
  std::size_t in_place;  // sources that are destinations as well
  std::size_t apart;     // destinations that are no sources
  std::size_t count;
  int divisor;
};

void expect_as_reference(Level level, DataType type, ReduceOp op, const Call& call) {
  const auto run = [&](const Kernels& kernels) {
    std::vector<Buffer> buffers;
    for (std::size_t b = 0; b < call.sources + call.apart; ++b) {
      buffers.emplace_back(type, call.count, (b * 5 + call.count) % 16, 100 * call.count + b);
    }
    std::vector<const void*> sources;
    std::vector<void*> destinations;
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      if (b < call.sources) sources.push_back(buffers[b].data());
      // Use the last sources, so that the first source is not always a destination.
      if (b >= call.sources - call.in_place) destinations.push_back(buffers[b].data());
    }
    kernels.combine_many(type, op, sources, destinations, call.count, call.divisor);
    return buffers;
  };
  const auto actual = run(kernels(level));
  const auto expected = run(reference_kernels());
  for (std::size_t b = 0; b < actual.size(); ++b) {
    ASSERT_TRUE(same(type, actual[b], expected[b], call.count))
        << to_string(level) << " " << to_string(type) << " " << to_string(op) << " buffer " << b
        << fmt::format(" of {}+{}, {} in place, divided by {}", call.sources, call.apart,
                       call.in_place, call.divisor);
  }
}

class ReduceTest : public ::testing::TestWithParam<DataType> {};

TEST(ReduceLevels, StartWithTheBaselineAndAreNamed) {
  const auto levels = available_levels();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), Level::kBaseline);
  for (const Level level : levels) std::cout << "level tested: " << to_string(level) << "\n";
  EXPECT_EQ(&kernels(), &kernels(levels.back()));
}

// A level that this processor lacks shows as a skipped test, not as a passed one.
TEST(ReduceLevels, Avx2IsTested) {
  if (available_levels().size() < 2) GTEST_SKIP() << "this processor has no AVX2";
}
TEST(ReduceLevels, Avx512IsTested) {
  if (available_levels().size() < 3) GTEST_SKIP() << "this processor has no AVX-512";
}

TEST_P(ReduceTest, CombineAgreesWithTheReferenceAtEveryCount) {
  const DataType type = GetParam();
  for (const Level level : available_levels()) {
    for (const ReduceOp op : kOps) {
      for (std::size_t count = 0; count <= 300; ++count) {
        Buffer actual(type, count, count % 9, count);
        Buffer expected = actual;
        const Buffer from(type, count, count % 7, count + 1000);
        kernels(level).combine(type, op, actual.data(), from.data(), count);
        reference_kernels().combine(type, op, expected.data(), from.data(), count);
        ASSERT_TRUE(same(type, actual, expected, count))
            << to_string(level) << " " << to_string(op);
      }
    }
  }
}

TEST_P(ReduceTest, CombineTakesTheSameBufferTwice) {
  const DataType type = GetParam();
  for (const Level level : available_levels()) {
    for (const ReduceOp op : kOps) {
      Buffer actual(type, 203, 3, 1);
      Buffer expected = actual;
      kernels(level).combine(type, op, actual.data(), actual.data(), 203);
      reference_kernels().combine(type, op, expected.data(), expected.data(), 203);
      ASSERT_TRUE(same(type, actual, expected, 203)) << to_string(level) << to_string(op);
    }
  }
}

TEST_P(ReduceTest, CombineManyAgreesForAnyNumberOfSources) {
  for (const Level level : available_levels()) {
    for (const ReduceOp op : kOps) {
      for (std::size_t sources = 1; sources <= 17; ++sources) {
        for (const std::size_t in_place : {std::size_t{0}, std::size_t{1}, sources}) {
          for (const int divisor : {1, 4, 3}) {
            const std::size_t apart = in_place == sources ? 0 : 1 + sources % 3;
            const std::size_t count = 150 + 7 * sources + static_cast<std::size_t>(divisor);
            expect_as_reference(level, GetParam(), op, {sources, in_place, apart, count, divisor});
          }
        }
      }
    }
  }
}

TEST_P(ReduceTest, CombineManyAgreesAtEveryCount) {
  for (const Level level : available_levels()) {
    for (std::size_t count = 0; count <= 300; ++count) {
      for (const std::size_t sources : {2, 3, 4, 11}) {
        const int divisor = count % 2 == 0 ? 1 : 5;
        expect_as_reference(level, GetParam(), ReduceOp::kSum,
                            {sources, sources, 0, count, divisor});
      }
    }
  }
}

// Longer than several blocks, with a partial block at the end.
TEST_P(ReduceTest, CombineManyAgreesOnLongBuffers) {
  for (const Level level : available_levels()) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      for (const std::size_t sources : {1, 2, 5, 9}) {
        expect_as_reference(level, GetParam(), op, {sources, sources, 1, 20'011, 6});
      }
    }
  }
}

TEST_P(ReduceTest, CombineManyWithoutDestinationWritesNothing) {
  for (const Level level : available_levels()) {
    expect_as_reference(level, GetParam(), ReduceOp::kSum, {3, 0, 0, 99, 2});
  }
}

TEST_P(ReduceTest, DivideAgreesWithTheReference) {
  const DataType type = GetParam();
  for (const Level level : available_levels()) {
    for (const int divisor : {1, 2, 3, 7, 1024, 100'003, std::numeric_limits<int>::max()}) {
      for (std::size_t count = 0; count <= 300; ++count) {
        Buffer actual(type, count, count % 5, count);
        Buffer expected = actual;
        kernels(level).divide(type, actual.data(), count, divisor);
        reference_kernels().divide(type, expected.data(), count, divisor);
        ASSERT_TRUE(same(type, actual, expected, count))
            << to_string(level) << " divided by " << divisor;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ReduceTest, ::testing::ValuesIn(kTypes),
                         [](const auto& param) { return std::string(to_string(param.param)); });

}  // namespace
}  // namespace tally::kernel
