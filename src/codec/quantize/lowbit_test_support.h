#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/rng.h"
#include "codec/codec.h"

namespace tally::codec {

using Values = std::vector<float>;
using ByteVector = std::vector<std::byte>;

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kTiny = std::numeric_limits<float>::denorm_min();
inline constexpr float kHuge = std::numeric_limits<float>::max();

inline Values random_values(std::size_t count, Rng& rng) {
  Values values(count);
  for (float& value : values) value = static_cast<float>(4 * rng.uniform() - 2);
  return values;
}

// Ordinary numbers mixed with zeros, subnormal and large numbers; all finite.
inline Values odd_values(std::size_t count, Rng& rng) {
  constexpr float kOdd[] = {0.0F, -0.0F, kTiny, -kTiny, 1e-38F, 1e30F, -1e30F, 1.0F};
  Values values = random_values(count, rng);
  for (float& value : values)
    if (rng.below(4) == 0) value = kOdd[rng.below(8)];
  return values;
}

// Encodes values that lie `shift` floats past an aligned address into bytes that lie `shift` bytes
// past one. Checks that encode() writes nothing else.
inline ByteVector encode_at(const Codec& codec, std::span<const float> values, std::size_t shift,
                            const Draw& draw = {}) {
  constexpr std::byte kAround{0x5A};
  Values in(shift % 16);
  in.insert(in.end(), values.begin(), values.end());
  const std::size_t most = codec.max_bytes(values.size());
  ByteVector out(shift + most + 64, kAround);
  const std::size_t used =
      codec.encode(std::span(in).subspan(shift % 16), draw, std::span(out).subspan(shift, most));
  EXPECT_LE(used, most);
  for (std::size_t i = 0; i < out.size(); ++i)
    EXPECT_TRUE((i >= shift && i < shift + most) || out[i] == kAround) << i;
  const auto begin = out.begin() + static_cast<std::ptrdiff_t>(shift);
  return {begin, begin + static_cast<std::ptrdiff_t>(used)};
}

// Runs decode() and decode_add() on bytes `shift` past an aligned address. Checks that they agree
// and write nothing else.
inline Values decode_at(const Codec& codec, const ByteVector& bytes, std::size_t count,
                        std::size_t shift = 0) {
  ByteVector in(shift);
  in.insert(in.end(), bytes.begin(), bytes.end());
  const auto encoded = std::span<const std::byte>(in).subspan(shift);
  const std::size_t begin = shift % 16;
  Values out(begin + count + 16, 77.0F), sum(begin + count + 16, 0.25F);
  EXPECT_TRUE(codec.decode(encoded, std::span(out).subspan(begin, count)).has_value());
  EXPECT_TRUE(codec.decode_add(encoded, 0.3F, std::span(sum).subspan(begin, count)).has_value());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool inside = i >= begin && i < begin + count;
    // Volatile, so that the compiler does not fuse the multiplication and the addition.
    const volatile float product = 0.3F * out[i];
    const float wanted = inside ? 0.25F + product : 0.25F;
    EXPECT_TRUE(sum[i] == wanted || (std::isnan(sum[i]) && std::isnan(wanted))) << i;
    EXPECT_TRUE(inside || out[i] == 77.0F) << i;
  }
  return {out.begin() + static_cast<std::ptrdiff_t>(begin),
          out.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}

inline Values through(const Codec& codec, std::span<const float> values, const Draw& draw = {}) {
  return decode_at(codec, encode_at(codec, values, 0, draw), values.size());
}

inline void expect_corrupt(const Codec& codec, std::span<const std::byte> bytes,
                           std::size_t count) {
  Values out(count);
  const auto decoded = codec.decode(bytes, out);
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
  const auto added = codec.decode_add(bytes, 1, out);
  ASSERT_FALSE(added.has_value());
  EXPECT_EQ(added.error().code, ErrorCode::kCorrupt);
}

// One byte fewer, one more, no bytes, and the bytes of another number of values.
inline void expect_wrong_lengths_refused(const Codec& codec, std::size_t count, Rng& rng) {
  ByteVector bytes = encode_at(codec, random_values(count, rng), 0);
  expect_corrupt(codec, {}, count);
  expect_corrupt(codec, std::span(bytes).first(bytes.size() - 1), count);
  bytes.push_back(std::byte{0});
  expect_corrupt(codec, bytes, count);
}

// Encoding and decoding give the same result at every address.
inline void expect_same_at_every_address(const Codec& codec, std::size_t count, Rng& rng) {
  const Values values = random_values(count, rng);
  const ByteVector wanted = encode_at(codec, values, 0);
  for (std::size_t shift = 0; shift < 64; ++shift) {
    EXPECT_EQ(encode_at(codec, values, shift), wanted);
    EXPECT_EQ(decode_at(codec, wanted, count, shift), decode_at(codec, wanted, count));
  }
}

inline void put_float(ByteVector& bytes, std::size_t index, float value) {
  std::memcpy(&bytes[index * sizeof value], &value, sizeof value);
}

inline bool same_bits(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) != 0) return false;
  }
  return true;
}

}  // namespace tally::codec
