#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "codec/codec.h"
#include "codec/conformance_test_support.h"

namespace tally::codec {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

// Encodes into exactly max_bytes() with guard bytes on both sides.
inline Bytes encoded(const Codec& codec, std::span<const float> values, const Draw& draw = {}) {
  constexpr std::size_t kAround = 64;
  constexpr std::byte kUntouched{0xA5};
  const std::size_t room = codec.max_bytes(values.size());
  Bytes bytes(room + kAround, kUntouched);
  const std::size_t size = codec.encode(values, draw, std::span(bytes).first(room));
  EXPECT_LE(size, room);
  for (std::size_t i = room; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], kUntouched);
  bytes.resize(size);
  return bytes;
}

inline Floats decoded(const Codec& codec, std::span<const std::byte> bytes, std::size_t count) {
  Floats values(count, 77.0F);
  const Result<void> read = codec.decode(bytes, values);
  EXPECT_TRUE(read.has_value()) << (read ? "" : read.error().message);
  return values;
}

inline Floats round_trip(const Codec& codec, std::span<const float> values, const Draw& draw = {}) {
  return decoded(codec, encoded(codec, values, draw), values.size());
}

// Normal values by the Box-Muller transform.
inline Floats normal_values(std::size_t count, Rng& rng) {
  Floats values(count);
  for (float& value : values)
    value = static_cast<float>(std::sqrt(-2 * std::log(1 - rng.uniform())) *
                               std::cos(6.283185307179586 * rng.uniform()));
  return values;
}

// Numbers with many equal magnitudes, zeros and subnormal numbers; with `odd_ones` also infinities
// and NaN.
inline Floats awkward_values(std::size_t count, Rng& rng, bool odd_ones) {
  using Limits = std::numeric_limits<float>;
  const float kinds[] = {0.0F,
                         -0.0F,
                         1.0F,
                         -1.0F,
                         Limits::denorm_min(),
                         -Limits::min(),
                         Limits::max(),
                         static_cast<float>(rng.uniform()),
                         Limits::infinity(),
                         -Limits::infinity(),
                         Limits::quiet_NaN()};
  Floats values(count);
  for (float& value : values) value = kinds[rng.below(odd_ones ? 11 : 8)];
  return values;
}

// Marks the values that were sent. Each decoded value must equal its original or zero.
inline std::vector<bool> sent_places(std::span<const float> values,
                                     std::span<const float> arrived) {
  std::vector<bool> sent(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    sent[i] = std::bit_cast<std::uint32_t>(arrived[i]) != 0;
    if (!sent[i]) continue;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(arrived[i]), std::bit_cast<std::uint32_t>(values[i]))
        << "value " << i;
  }
  return sent;
}

}  // namespace tally::codec
