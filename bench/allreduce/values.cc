#include "bench/allreduce/values.h"

#include <bit>

#include "base/errors.h"

namespace tally::bench {
namespace {

float by_element(std::size_t index) { return static_cast<float>(index % 1009); }
float by_rank(std::size_t index) { return static_cast<float>(index % 31 + 1); }

}  // namespace

void fill_for_check(std::span<float> data, Rank rank) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = by_element(i) + static_cast<float>(rank + 1) * by_rank(i);
  }
}

Result<void> compare_with_sum(std::span<const float> data, int ranks) {
  const int rank_sum = ranks * (ranks + 1) / 2;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const float want =
        static_cast<float>(ranks) * by_element(i) + static_cast<float>(rank_sum) * by_rank(i);
    if (data[i] != want) {
      return corrupt("element {} is {}, not {}", i, data[i], want);
    }
  }
  return {};
}

void fill_for_timing(std::span<float> data) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = 1e-30F * static_cast<float>(1 + i % 7);
}

int calls_before_overflow(int ranks) {
  const int bits = ranks > 1 ? std::bit_width(static_cast<unsigned>(ranks - 1)) : 1;
  return 200 / bits;
}

}  // namespace tally::bench
