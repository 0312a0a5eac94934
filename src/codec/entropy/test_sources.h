#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "codec/entropy/byte_coders.h"

// Random bytes with a known distribution, for tests.
namespace tally::codec {

using Bytes = std::vector<std::byte>;

inline double normal(Rng& rng) {
  return std::sqrt(-2 * std::log(1 - rng.uniform())) *
         std::cos(2 * std::numbers::pi * rng.uniform());
}

// The probability of each byte.
using Distribution = std::array<double, 256>;

inline Distribution uniform_over(std::size_t symbols) {
  Distribution shares{};
  for (std::size_t s = 0; s < symbols; ++s)
    shares[s * 37 % 256] = 1.0 / static_cast<double>(symbols);
  return shares;
}

// Probabilities that fall by `ratio` from each byte to the next.
inline Distribution geometric(double ratio) {
  Distribution shares{};
  double sum = 0;
  double next = 1;
  for (double& share : shares) sum += share = std::exchange(next, next * ratio);
  for (double& share : shares) share /= sum;
  return shares;
}

// A normal distribution with this standard deviation, rounded to integers.
inline Distribution rounded_normal(double deviation) {
  Distribution shares{};
  double sum = 0;
  for (int s = -128; s < 128; ++s)
    sum += shares[static_cast<std::size_t>(s & 255)] =
        std::exp(-s * s / (2 * deviation * deviation));
  for (double& share : shares) share /= sum;
  return shares;
}

inline Bytes draw_bytes(const Distribution& shares, std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) {
    double left = rng.uniform();
    std::size_t s = 0;
    while (s < 255 && (left >= shares[s] || shares[s] == 0)) left -= shares[s++];
    byte = static_cast<std::byte>(s);
  }
  return bytes;
}

// The entropy in bits per byte, a lower bound for any code of single bytes.
inline double entropy_bits(const ByteCounts& counts, std::size_t total) {
  double bits = 0;
  for (const std::uint32_t count : counts)
    if (count > 0)
      bits -= count * std::log2(static_cast<double>(count) / static_cast<double>(total));
  return bits / static_cast<double>(total);
}

}  // namespace tally::codec
