#pragma once
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"

namespace tally::codec {

// The layout of an encoding in blocks: first `floats` numbers per block, then the codes of all
// values, `bits` each, lowest bits first. The codes of a block begin at a whole byte, and bits
// behind the last code of a block are zero. The first block is shorter by `missing` values.
class BlockLayout final {
 public:
  BlockLayout(std::size_t count, std::size_t block, std::size_t floats, std::size_t bits,
              std::size_t missing = 0)
      : count_(count), block_(block), floats_(floats), bits_(bits), missing_(missing) {
    TALLY_CHECK(block > missing);
  }

  std::size_t blocks() const {
    const std::size_t all = count_ + missing_;
    return count_ == 0 ? 0 : all / block_ + (all % block_ != 0 ? 1 : 0);
  }
  // The index of a block's first value, and its number of values.
  std::size_t first(std::size_t b) const { return b == 0 ? 0 : b * block_ - missing_; }
  std::size_t length(std::size_t b) const {
    const std::size_t next = (b + 1) * block_ - missing_;
    return (next < count_ ? next : count_) - first(b);
  }

  std::size_t head_bytes() const { return blocks() * floats_ * sizeof(float); }
  // The offset of a block's codes from the first code.
  std::size_t codes_at(std::size_t b) const {
    return b == 0 ? 0 : bytes_of(block_ - missing_) + (b - 1) * bytes_of(block_);
  }
  std::size_t code_bytes(std::size_t b) const { return bytes_of(length(b)); }
  std::size_t code_bytes() const {
    if (count_ == 0) return 0;
    return codes_at(blocks() - 1) + code_bytes(blocks() - 1);
  }
  std::size_t bytes() const { return head_bytes() + code_bytes(); }

  // Whether the bits behind the last code of every block are zero. `codes` has code_bytes().
  bool ends_clear(std::span<const std::byte> codes) const {
    // All blocks but the last end at a whole byte.
    if (missing_ == 0 && block_ * bits_ % 8 == 0)
      return blocks() == 0 || ends_clear(codes, blocks() - 1);
    for (std::size_t b = 0; b < blocks(); ++b)
      if (!ends_clear(codes, b)) return false;
    return true;
  }

 private:
  std::size_t bytes_of(std::size_t values) const { return (values * bits_ + 7) / 8; }
  bool ends_clear(std::span<const std::byte> codes, std::size_t b) const {
    const std::size_t used = length(b) * bits_ % 8;
    if (used == 0) return true;
    return (codes[codes_at(b) + code_bytes(b) - 1] >> used) == std::byte{0};
  }

  std::size_t count_, block_, floats_, bits_, missing_;
};

// Float number `index` of an encoding, at any address.
inline float load_float(std::span<const std::byte> bytes, std::size_t index) {
  float value = 0;
  std::memcpy(&value, bytes.subspan(index * sizeof value, sizeof value).data(), sizeof value);
  return value;
}
inline void store_float(std::span<std::byte> bytes, std::size_t index, float value) {
  std::memcpy(bytes.subspan(index * sizeof value, sizeof value).data(), &value, sizeof value);
}

// The scale of a block with a value that is not finite; the whole block is decoded as NaN.
inline constexpr float kNotFinite = std::numeric_limits<float>::quiet_NaN();
// Whether an encoder may write this scale: finite and not negative, or NaN.
inline bool is_scale(float scale) {
  return std::isnan(scale) || (std::isfinite(scale) && scale >= 0);
}

// kCorrupt unless there are `expected` bytes, the size of an encoding of `count` values.
inline Result<void> check_size(std::string_view codec, std::span<const std::byte> bytes,
                               std::size_t expected, std::size_t count) {
  if (bytes.size() == expected) return {};
  return corrupt(
      fmt::format("{}: {} bytes for {} values, expected {}", codec, bytes.size(), count, expected));
}
inline Error wrong_scale(std::string_view codec, std::size_t block, float scale) {
  return corrupt(fmt::format("{}: block {} has scale {}", codec, block, scale));
}
inline Error wrong_codes(std::string_view codec, std::size_t block) {
  return corrupt(fmt::format("{}: block {} has an invalid code", codec, block));
}
inline Error wrong_ends(std::string_view codec) {
  return corrupt(fmt::format("{}: bits are set behind the last value of a block", codec));
}

}  // namespace tally::codec
