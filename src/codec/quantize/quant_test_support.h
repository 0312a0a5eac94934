#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "codec/codec.h"

namespace tally::codec {

inline std::vector<std::byte> encoded(const Codec& codec, const std::vector<float>& values,
                                      const Draw& draw = {}) {
  std::vector<std::byte> bytes(codec.max_bytes(values.size()));
  bytes.resize(codec.encode(values, draw, bytes));
  return bytes;
}

inline std::vector<float> decoded(const Codec& codec, const std::vector<std::byte>& bytes,
                                  std::size_t count) {
  std::vector<float> values(count, 77.0F);
  const Result<void> done = codec.decode(bytes, values);
  EXPECT_TRUE(done.has_value());
  return values;
}

inline std::vector<float> round_trip(const Codec& codec, const std::vector<float>& values,
                                     const Draw& draw = {}) {
  return decoded(codec, encoded(codec, values, draw), values.size());
}

// Values of magnitude up to about `scale`, with some zeros.
inline std::vector<float> random_values(std::size_t count, float scale, Rng& rng) {
  std::vector<float> values(count);
  for (float& value : values)
    value = rng.below(10) == 0 ? 0 : scale * static_cast<float>(rng.uniform() * 2 - 1);
  return values;
}

// Any length other than the right one is refused.
inline void expect_only_size(const Codec& codec, std::size_t count) {
  const std::vector<std::byte> zeros(codec.max_bytes(count) + 9);
  std::vector<float> out(count);
  for (std::size_t size = 0; size <= zeros.size(); ++size) {
    const std::span bytes = std::span(zeros).first(size);
    const bool right = size == codec.max_bytes(count);
    EXPECT_EQ(codec.decode(bytes, out).has_value(), right) << size;
    const Result<void> added = codec.decode_add(bytes, 1, out);
    ASSERT_EQ(added.has_value(), right) << size;
    if (!right) {
      EXPECT_EQ(added.error().code, ErrorCode::kCorrupt);
    }
  }
}

// decode_add() equals decode() times the weight plus the old value, bit for bit, at every length
// and address.
inline void expect_adds_what_it_decodes(const Codec& codec, std::uint64_t seed) {
  Rng rng(seed);
  for (std::size_t count = 0; count <= 1000; ++count) {
    const auto values = random_values(count, 3, rng);
    const auto bytes = encoded(codec, values, {.step = count});
    const std::size_t shift = count % 64;
    std::vector<std::byte> moved(shift);
    moved.insert(moved.end(), bytes.begin(), bytes.end());
    const std::span<const std::byte> at = std::span(moved).subspan(shift);
    const auto out = decoded(codec, bytes, count);
    auto sum = random_values(count, 3, rng);
    auto expected = sum;
    for (std::size_t i = 0; i < count; ++i) {
      const float product = 0.3F * out[i];
      expected[i] += product;
    }
    ASSERT_TRUE(codec.decode_add(at, 0.3F, sum).has_value());
    ASSERT_EQ(sum, expected) << count;
  }
}

}  // namespace tally::codec
