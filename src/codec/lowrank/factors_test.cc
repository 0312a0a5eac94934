#include "codec/lowrank/factors.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tally::codec {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<float> random_factors(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  Rng random(seed);
  for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1);
  return values;
}

struct Matrix {
  std::size_t rows, columns, rank;
  std::vector<float> left = random_factors(rows * rank, 1);
  std::vector<float> right = random_factors(columns * rank, 2);

  Bytes encode(const FactorRun& place) const {
    Bytes bytes(factor_bytes(place, rank));
    encode_factors({.rows = rows, .rank = rank, .left = left, .right = right}, place, bytes);
    return bytes;
  }
  float value(std::size_t element) const {
    const std::size_t i = element / columns, j = element % columns;
    float sum = left[i] * right[j];
    for (std::size_t k = 1; k < rank; ++k) sum += left[k * rows + i] * right[k * columns + j];
    return sum;
  }
};

TEST(Factors, EveryRunOfAMatrixIsDecodedAlone) {
  for (const auto& [rows, columns] :
       {std::pair<std::size_t, std::size_t>{7, 5}, {1, 12}, {12, 1}}) {
    for (const std::size_t rank : {std::size_t{1}, std::size_t{2}, std::size_t{5}}) {
      const Matrix matrix{.rows = rows, .columns = columns, .rank = rank};
      for (std::size_t first = 0; first < rows * columns; ++first) {
        for (std::size_t count = 1; first + count <= rows * columns; ++count) {
          const FactorRun place{.columns = columns, .first = first, .count = count};
          // One byte past an aligned address.
          Bytes bytes = matrix.encode(place);
          bytes.insert(bytes.begin(), std::byte{0});
          std::vector<float> out(count + 1, 77.0F);
          const auto decoded =
              decode_factors(std::span(bytes).subspan(1), place, std::span(out).first(count));
          ASSERT_TRUE(decoded) << decoded.error().message;
          for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], matrix.value(first + i));
          ASSERT_EQ(out[count], 77.0F);
        }
      }
    }
  }
}

TEST(Factors, OnlyTheRowsOfTheRunTravel) {
  EXPECT_EQ(rows_of({.columns = 10, .first = 0, .count = 10}).count, 1U);
  EXPECT_EQ(rows_of({.columns = 10, .first = 9, .count = 2}).count, 2U);
  EXPECT_EQ(rows_of({.columns = 10, .first = 25, .count = 1}).first, 2U);
  EXPECT_EQ(factor_bytes({.columns = 10, .first = 9, .count = 2}, 3), 4U + (2 + 10) * 3 * 4);
}

TEST(Factors, BytesThatAreNoEncodingAreRefused) {
  const Matrix matrix{.rows = 7, .columns = 5, .rank = 2};
  const FactorRun place{.columns = 5, .first = 3, .count = 20};
  const Bytes good = matrix.encode(place);
  std::vector<float> out(place.count);
  const auto is_corrupt = [&](const Bytes& bytes) {
    const auto decoded = decode_factors(bytes, place, out);
    return !decoded && decoded.error().code == ErrorCode::kCorrupt;
  };
  ASSERT_TRUE(decode_factors(good, place, out));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_TRUE(is_corrupt({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}))
        << size;
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_TRUE(is_corrupt(longer));
  for (const std::uint32_t rank : {0U, 1U, 3U, 65U, 0xFFFFFFFFU}) {
    Bytes other = good;
    std::memcpy(other.data(), &rank, sizeof rank);
    EXPECT_TRUE(is_corrupt(other)) << rank;
  }
  EXPECT_EQ(decode_factors(std::span(good).first(5), place, out).error().message,
            "factors of rank 2 for 20 values have 5 bytes instead of 84");
}

}  // namespace
}  // namespace tally::codec
