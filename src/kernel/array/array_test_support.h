#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace tally::kernel {

// `count` values that start `shift` values past an aligned address, between guard values.
template <typename T>
class Array {
 public:
  Array(std::size_t count, std::size_t shift)
      : values_(count + 2 * kAround, T(77)), shift_(shift) {}

  T* data() { return values_.data() + shift_; }
  const T* data() const { return values_.data() + shift_; }

  // Compares all bits, guards included; any NaN equals any other.
  ::testing::AssertionResult same_as(const Array& other) const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const T a = values_[i];
      const T b = other.values_[i];
      if (std::isnan(a) && std::isnan(b)) continue;
      if (std::memcmp(&a, &b, sizeof a) == 0) continue;
      return ::testing::AssertionFailure()
             << "element " << static_cast<long>(i - shift_) << ": " << a << " is not " << b;
    }
    return ::testing::AssertionSuccess();
  }

  static constexpr std::size_t kAround = 16;

 private:
  std::vector<T> values_;
  std::size_t shift_;
};

// Ordinary numbers, mixed with zeros, subnormal, huge and infinite numbers and NaN.
template <typename T>
T random_value(Rng& rng, bool odd_ones) {
  using Limits = std::numeric_limits<T>;
  const T ordinary = static_cast<T>(4 * rng.uniform() - 2);
  if (!odd_ones || rng.below(8) != 0) return ordinary;
  constexpr T kOdd[] = {T(0),          -T(0),          Limits::denorm_min(), Limits::min(),
                        Limits::max(), -Limits::max(), Limits::infinity(),   Limits::quiet_NaN()};
  return kOdd[rng.below(8)];
}

template <typename T>
Array<T> random_array(std::size_t count, std::size_t shift, Rng& rng, bool odd_ones = true) {
  Array<T> array(count, shift);
  for (std::size_t i = 0; i < count; ++i) array.data()[i] = random_value<T>(rng, odd_ones);
  return array;
}

}  // namespace tally::kernel
