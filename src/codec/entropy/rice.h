#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tally/error.h"

namespace tally::codec {

// Ascending indices as bits: the gap between two indices in a Rice code (Golomb 1966, Rice 1979),
// which is gap >> parameter zeros, a one, then the gap's lower `parameter` bits, from the lowest
// bit of each byte on. The last byte is padded with zeros.
//
// Parameter 0 gives a bitmap up to the last index, so the best parameter needs at most last index +
// 1 bits.

inline constexpr unsigned kMaxRice = 31;

struct RiceCode {
  unsigned parameter = 0;
  std::uint64_t bits = 0;  // of all gaps

  std::size_t bytes() const { return static_cast<std::size_t>((bits + 7) / 8); }
};

// The code with the fewest bits for these ascending indices, among parameters near that of their
// mean gap, and parameter 0.
RiceCode choose_rice(std::span<const std::uint32_t> indices);

// `out` has code.bytes(), and `code` is choose_rice() of the same indices.
void write_gaps(const RiceCode& code, std::span<const std::uint32_t> indices,
                std::span<std::byte> out);

// Reads indices one by one, each above the last and below `count`. The bytes need not be trusted.
class GapReader {
 public:
  // `parameter` is at most kMaxRice; the bytes outlive the reader.
  GapReader(std::span<const std::byte> bytes, unsigned parameter, std::size_t count)
      : bytes_(bytes), parameter_(parameter), count_(count) {}

  // False if there is no further index; then the bytes are corrupt.
  bool next(std::size_t& index);
  // Whether only the padding of the last byte is left.
  bool at_end() const;

 private:
  // At least 57 bits from position_ on; zeros behind the end.
  std::uint64_t window() const;

  std::span<const std::byte> bytes_;
  const unsigned parameter_;
  const std::uint64_t count_;
  std::uint64_t position_ = 0;  // in bits
  std::uint64_t next_ = 0;      // least index that may follow
};

}  // namespace tally::codec
