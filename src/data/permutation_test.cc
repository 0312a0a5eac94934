#include "data/permutation.h"

#include <vector>

#include <gtest/gtest.h>

namespace tally::data {
namespace {

TEST(Permutation, HasEachNumberOnceAtEverySize) {
  for (std::uint64_t size = 1; size < 300; ++size)
    for (const std::uint64_t key : {0U, 1U, 77U}) {
      const Permutation permutation(size, key);
      std::vector<int> seen(size, 0);
      for (std::uint64_t i = 0; i < size; ++i) ++seen[permutation(i)];
      EXPECT_EQ(seen, std::vector<int>(size, 1)) << size;
    }
}

TEST(Permutation, LargeSizesStayInside) {
  for (const std::uint64_t size : {(1ULL << 40) + 1, 1ULL << 63, ~0ULL >> 1}) {
    const Permutation permutation(size, 5);
    for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}, size / 2, size - 1})
      EXPECT_LT(permutation(index), size);
  }
}

// Each number is at the first position about equally often. Chi-square over the keys, with 19
// degrees of freedom, exceeds 52.4 with probability 1/20000.
TEST(Permutation, FirstPlaceIsUniform) {
  constexpr std::uint64_t kSize = 20;
  constexpr int kKeys = 20000;
  std::vector<int> counts(kSize, 0);
  for (std::uint64_t key = 0; key < kKeys; ++key) ++counts[Permutation(kSize, mix(1, key))(0)];
  double chi_square = 0;
  const double expected = double{kKeys} / kSize;
  for (const int count : counts) chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_square, 52.4);
}

// Neighbours in the order are neighbours in the file only as often as in a random order: 2 in 1000
// pairs.
TEST(Permutation, NeighboursAreTornApart) {
  constexpr std::uint64_t kSize = 1000;
  int neighbours = 0;
  for (std::uint64_t key = 0; key < 100; ++key) {
    const Permutation permutation(kSize, mix(2, key));
    for (std::uint64_t i = 1; i < kSize; ++i) {
      const std::uint64_t a = permutation(i - 1);
      const std::uint64_t b = permutation(i);
      neighbours += a + 1 == b || b + 1 == a ? 1 : 0;
    }
  }
  EXPECT_NEAR(neighbours, 200, 60);
}

}  // namespace
}  // namespace tally::data
