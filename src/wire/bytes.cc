#include "wire/bytes.h"

#include "base/errors.h"

namespace tally::wire {

Result<bool> Reader::flag() {
  TALLY_TRY(const std::uint8_t value, u8());
  if (value > 1) return corrupt("flag of value {}", value);
  return value == 1;
}

Result<std::chrono::nanoseconds> Reader::time() {
  constexpr auto kMost = std::int64_t{1} << 61;
  TALLY_TRY(const std::uint64_t bits, u64());
  const auto value = static_cast<std::int64_t>(bits);
  if (value > kMost || value < -kMost) return corrupt("time of {} ns", value);
  return std::chrono::nanoseconds(value);
}

Result<std::string> Reader::string(std::size_t max_bytes) {
  Reader ahead = *this;
  TALLY_TRY(const std::uint32_t length, ahead.u32());
  if (length > max_bytes) return corrupt("string of {} bytes, limit {}", length, max_bytes);
  TALLY_TRY(const std::span<const std::byte> raw, ahead.bytes(length));
  *this = ahead;
  return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
}

Result<std::span<const std::byte>> Reader::bytes(std::size_t count) {
  if (count > rest_.size())
    return corrupt("body ends early: {} bytes wanted, {} left", count, rest_.size());
  const std::span<const std::byte> taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

Result<void> Reader::end() const {
  if (rest_.empty()) return {};
  return corrupt("{} bytes after the end of the body", rest_.size());
}

}  // namespace tally::wire
