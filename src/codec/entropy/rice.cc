#include "codec/entropy/rice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace tally::codec {
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored as they are");

// Stores the pending bits with every code, over the last store, without a branch.
class BitWriter {
 public:
  explicit BitWriter(std::span<std::byte> out) : out_(out) {}

  // Writes the lower `count` bits, at most 56; the bits above are 0.
  void put(std::uint64_t bits, unsigned count) {
    pending_ |= bits << used_;
    used_ += count;
    if (at_ + sizeof pending_ <= out_.size()) {
      std::memcpy(out_.data() + at_, &pending_, sizeof pending_);
    } else {
      TALLY_CHECK(at_ + (used_ + 7) / 8 <= out_.size());
      std::memcpy(out_.data() + at_, &pending_, out_.size() - at_);
    }
    at_ += used_ / 8;
    pending_ >>= used_ / 8 * 8;
    used_ %= 8;
  }
  bool is_full() const { return at_ + (used_ + 7) / 8 == out_.size(); }

 private:
  std::span<std::byte> out_;
  std::size_t at_ = 0;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;  // bits of pending_; below 8 between calls
};

std::uint64_t bits_with(unsigned parameter, std::span<const std::uint32_t> indices) {
  std::uint64_t unary = indices.empty() ? 0 : indices[0] >> parameter;
  for (std::size_t i = 1; i < indices.size(); ++i)
    unary += (indices[i] - indices[i - 1] - 1) >> parameter;
  return unary + indices.size() * (1 + std::uint64_t{parameter});
}

// The best parameter, within one, for geometrically distributed gaps: about half of the gaps are
// above 2^parameter.
unsigned parameter_for(double mean_gap) {
  const double half = mean_gap * std::log(2.0);
  if (half < 1) return 0;
  return std::min(kMaxRice, static_cast<unsigned>(std::lround(std::log2(half))));
}

}  // namespace

RiceCode choose_rice(std::span<const std::uint32_t> indices) {
  if (indices.empty()) return {};
  const double left_out =
      static_cast<double>(indices.back()) + 1 - static_cast<double>(indices.size());
  const unsigned first = parameter_for(left_out / static_cast<double>(indices.size()));
  RiceCode best{.parameter = first, .bits = bits_with(first, indices)};
  if (first < kMaxRice)
    if (const std::uint64_t bits = bits_with(first + 1, indices); bits < best.bits)
      return {.parameter = first + 1, .bits = bits};
  // Clustered indices have small gaps between large ones, and need a smaller parameter than the
  // mean suggests.
  for (unsigned next = first; next > 0; --next) {
    const std::uint64_t bits = bits_with(next - 1, indices);
    if (bits >= best.bits) break;
    best = {.parameter = next - 1, .bits = bits};
  }
  if (const std::uint64_t bitmap = std::uint64_t{indices.back()} + 1; bitmap < best.bits)
    best = {.parameter = 0, .bits = bitmap};
  return best;
}

void write_gaps(const RiceCode& code, std::span<const std::uint32_t> indices,
                std::span<std::byte> out) {
  constexpr unsigned kMost = 56;
  BitWriter writer(out.first(code.bytes()));
  const unsigned parameter = code.parameter;
  const std::uint64_t lower = (std::uint64_t{1} << parameter) - 1;
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    const std::uint64_t gap = index - next;
    next = index + 1;
    std::uint64_t zeros = gap >> parameter;
    // Only zeros are split: the rest is at most 1 + kMaxRice bits.
    while (zeros + 1 + parameter > kMost) {
      const std::uint64_t some = std::min<std::uint64_t>(zeros, kMost);
      writer.put(0, static_cast<unsigned>(some));
      zeros -= some;
    }
    const auto width = static_cast<unsigned>(zeros) + 1 + parameter;
    writer.put((((gap & lower) << 1) | 1) << zeros, width);
  }
  TALLY_CHECK(writer.is_full());
}

std::uint64_t GapReader::window() const {
  const std::uint64_t at = position_ / 8;
  std::uint64_t word = 0;
  if (at + 8 <= bytes_.size()) {
    std::memcpy(&word, bytes_.data() + at, 8);
  } else if (at < bytes_.size()) {
    std::memcpy(&word, bytes_.data() + at, bytes_.size() - at);
  }
  return word >> (position_ % 8);
}

bool GapReader::next(std::size_t& index) {
  constexpr unsigned kSure = 57;
  const std::uint64_t end = std::uint64_t{bytes_.size()} * 8;
  const std::uint64_t most = count_ >> parameter_;
  std::uint64_t zeros = 0;
  std::uint64_t ahead = window();
  while (ahead == 0) {
    position_ += kSure;
    zeros += kSure;
    if (position_ >= end || zeros > most) return false;
    ahead = window();
  }
  const auto more = static_cast<unsigned>(std::countr_zero(ahead));
  zeros += more;
  position_ += more + 1;
  // The lower bits are in `ahead` already unless there were many zeros.
  ahead = more + 1 + parameter_ <= kSure ? ahead >> more >> 1 : window();
  position_ += parameter_;
  if (position_ > end || zeros > most) return false;
  const std::uint64_t lower = ahead & ((std::uint64_t{1} << parameter_) - 1);
  const std::uint64_t found = next_ + ((zeros << parameter_) | lower);
  if (found >= count_) return false;
  index = static_cast<std::size_t>(found);
  next_ = found + 1;
  return true;
}

bool GapReader::at_end() const {
  if ((position_ + 7) / 8 != bytes_.size()) return false;
  return position_ % 8 == 0 || window() == 0;
}

}  // namespace tally::codec
