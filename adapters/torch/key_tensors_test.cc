// The tensor operations against the plain computation.
#include "adapters/torch/key_tensors.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "data/permutation.h"

namespace tally::adapter {
namespace {

std::vector<std::int64_t> some_numbers(bool negative) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> numbers = {0, 1, 49, 50, 51, kMost, kMost - 1, std::int64_t{1} << 62};
  if (negative) numbers.insert(numbers.end(), {-1, -2, std::numeric_limits<std::int64_t>::min()});
  Rng rng(7);
  for (int i = 0; i < 1000; ++i)
    numbers.push_back(static_cast<std::int64_t>(negative ? rng.next() : rng.next() >> 1));
  return numbers;
}

TEST(KeyTensors, HashesAreThoseOfTheNumbers) {
  const auto numbers = some_numbers(/*negative=*/true);
  const at::Tensor tensor = at::tensor(numbers, at::kLong);
  const at::Tensor next = next_of(tensor);
  const at::Tensor mix = mixed(tensor, tensor.flip(0));
  const at::Tensor shifted = shifted_right(tensor, 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto bits = static_cast<std::uint64_t>(numbers[i]);
    const auto other = static_cast<std::uint64_t>(numbers[numbers.size() - 1 - i]);
    ASSERT_EQ(next[at].item<std::int64_t>(), static_cast<std::int64_t>(Rng(bits).next()));
    ASSERT_EQ(mix[at].item<std::int64_t>(), static_cast<std::int64_t>(data::mix(bits, other)));
    ASSERT_EQ(shifted[at].item<std::int64_t>(), static_cast<std::int64_t>(bits >> 1));
  }
}

TEST(KeyTensors, RowsAreThoseOfTheUnsignedHash) {
  const auto keys = some_numbers(/*negative=*/false);
  for (const std::int64_t rows :
       {std::int64_t{1}, std::int64_t{50}, std::int64_t{65536}, (std::int64_t{1} << 32) - 5}) {
    const at::Tensor found = rows_of(at::tensor(keys, at::kLong), rows);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto key = static_cast<std::uint64_t>(keys[i]);
      const auto count = static_cast<std::uint64_t>(rows);
      ASSERT_EQ(found[static_cast<std::int64_t>(i)].item<std::int64_t>(),
                static_cast<std::int64_t>(key < count ? key : Rng(key).next() % count))
          << keys[i] << " of " << rows;
    }
  }
}

}  // namespace
}  // namespace tally::adapter
