#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"
#include "wire/little_endian.h"

namespace tally::wire {

// Writes the body of a message: integers little-endian, strings as a u32 length and their bytes.
class Writer final {
 public:
  void u8(std::uint8_t value) { put(value, 1); }
  void u32(std::uint32_t value) { put(value, 4); }
  void u64(std::uint64_t value) { put(value, 8); }
  void i32(std::int32_t value) { u32(static_cast<std::uint32_t>(value)); }
  void flag(bool value) { u8(value ? 1 : 0); }
  void time(std::chrono::nanoseconds value) { u64(static_cast<std::uint64_t>(value.count())); }
  void string(std::string_view text) {
    u32(static_cast<std::uint32_t>(text.size()));
    bytes(std::as_bytes(std::span(text)));
  }
  // Writes no length: both sides know it.
  void bytes(std::span<const std::byte> raw) { out_.insert(out_.end(), raw.begin(), raw.end()); }

  std::span<const std::byte> view() const { return out_; }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  void put(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  std::vector<std::byte> out_;
};

// Reads the bytes of a Writer. Every call is kCorrupt, with nothing consumed, if too few bytes are
// left; a string is allocated only after its length has been checked. Borrows the bytes.
class Reader final {
 public:
  explicit Reader(std::span<const std::byte> body) : rest_(body) {}

  Result<std::uint8_t> u8() { return integer<std::uint8_t>(); }
  Result<std::uint32_t> u32() { return integer<std::uint32_t>(); }
  Result<std::uint64_t> u64() { return integer<std::uint64_t>(); }
  Result<std::int32_t> i32() { return integer<std::int32_t>(); }
  // kCorrupt also for a value other than 0 and 1.
  Result<bool> flag();
  // kCorrupt also for a time so far away that differences of two could overflow.
  Result<std::chrono::nanoseconds> time();
  // kCorrupt also if the string is longer than `max_bytes`.
  Result<std::string> string(std::size_t max_bytes);
  // The next `count` bytes, in place.
  Result<std::span<const std::byte>> bytes(std::size_t count);
  // kCorrupt unless everything has been read.
  Result<void> end() const;

  std::size_t remaining_bytes() const { return rest_.size(); }

 private:
  template <typename T>
  Result<T> integer() {
    TALLY_TRY(const std::span<const std::byte> raw, bytes(sizeof(T)));
    return load<T>(raw, 0);
  }

  std::span<const std::byte> rest_;
};

}  // namespace tally::wire
