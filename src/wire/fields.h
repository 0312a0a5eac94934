#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "wire/bytes.h"
#include "wire/error_body.h"
#include "wire/little_endian.h"

namespace tally::wire {

// One list of fields serves both directions. For a struct Pulse, a function
//
//   template <typename Fields>
//   void fields(Fields& f, FieldsOf<Fields, Pulse>& pulse) { f.time(pulse.now); ... }
//
// names the fields of its body in order; write_fields() writes them, read_fields() reads and checks
// them. Numbers have the width of their type; a list is a u32 count and its elements.

template <typename Fields, typename T>
using FieldsOf = std::conditional_t<Fields::kReads, T, const T>;

class FieldWriter final {
 public:
  static constexpr bool kReads = false;
  explicit FieldWriter(Writer& out) : out_(out) {}

  template <typename T>
  void number(T value) {
    static_assert(std::is_integral_v<T>);
    for (std::size_t i = 0; i < sizeof(T); ++i)
      out_.u8(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
  void flag(bool value) { out_.flag(value); }
  void time(std::chrono::nanoseconds value) { out_.time(value); }
  void real(double value) { out_.u64(std::bit_cast<std::uint64_t>(value)); }
  template <typename Enum>
  void choice(Enum value, Enum /*last*/) {
    out_.u8(static_cast<std::uint8_t>(value));
  }
  // At most `max_bytes`; clipped() writes the beginning of a longer text.
  void text(const std::string& value, std::size_t /*max_bytes*/) { out_.string(value); }
  void clipped(const std::string& value, std::size_t max_bytes) {
    out_.string(std::string_view(value).substr(0, max_bytes));
  }
  template <std::size_t kBytes>
  void bytes(const std::array<std::byte, kBytes>& value) {
    out_.bytes(value);
  }
  void error(const Error& value) {
    const std::vector<std::byte> body = encode_error(value);
    out_.u32(static_cast<std::uint32_t>(body.size()));
    out_.bytes(body);
  }
  // A flag, and the value if there is one.
  template <typename T, typename Each>
  void optional(const std::optional<T>& value, const Each& each) {
    out_.flag(value.has_value());
    if (value) each(*value);
  }
  // At most `max` elements: further ones are left out. `Count` is the type of the count.
  template <typename Count = std::uint32_t, typename T, typename Each>
  void list(const std::vector<T>& values, std::size_t max, const Each& each) {
    const std::size_t count = std::min(values.size(), max);
    number(static_cast<Count>(count));
    for (std::size_t i = 0; i < count; ++i) each(values[i]);
  }
  // Reading fails with `what` unless `holds`.
  void check(bool /*holds*/, const char* /*what*/) {}

 private:
  Writer& out_;
};

// After the first error everything else is skipped.
class FieldReader final {
 public:
  static constexpr bool kReads = true;
  explicit FieldReader(Reader& in) : in_(in) {}

  template <typename T>
  void number(T& value) {
    static_assert(std::is_integral_v<T>);
    std::span<const std::byte> raw;
    if (!error_) take(raw, in_.bytes(sizeof(T)));
    if (!error_) value = load<T>(raw, 0);
  }
  void flag(bool& value) {
    if (!error_) take(value, in_.flag());
  }
  void time(std::chrono::nanoseconds& value) {
    if (!error_) take(value, in_.time());
  }
  void real(double& value) {
    std::uint64_t bits = 0;
    number(bits);
    value = std::bit_cast<double>(bits);
  }
  template <typename Enum>
  void choice(Enum& value, Enum last) {
    std::uint8_t chosen = 0;
    number(chosen);
    check(chosen <= static_cast<std::uint8_t>(last), "an unknown value of an enumeration");
    if (!error_) value = static_cast<Enum>(chosen);
  }
  void text(std::string& value, std::size_t max_bytes) {
    if (!error_) take(value, in_.string(max_bytes));
  }
  void clipped(std::string& value, std::size_t max_bytes) { text(value, max_bytes); }
  template <std::size_t kBytes>
  void bytes(std::array<std::byte, kBytes>& value) {
    std::span<const std::byte> raw;
    if (!error_) take(raw, in_.bytes(kBytes));
    std::copy(raw.begin(), raw.end(), value.begin());
  }
  void error(Error& value) {
    std::uint32_t count = 0;
    number(count);
    std::span<const std::byte> body;
    if (!error_) take(body, in_.bytes(count));
    if (error_) return;
    if (auto decoded = decode_error(body, &value); !decoded.has_value()) error_ = decoded.error();
  }
  template <typename T, typename Each>
  void optional(std::optional<T>& value, const Each& each) {
    bool there = false;
    flag(there);
    if (there) each(value.emplace());
  }
  template <typename Count = std::uint32_t, typename T, typename Each>
  void list(std::vector<T>& values, std::size_t max, const Each& each) {
    Count count = 0;
    number(count);
    // Every element has at least one byte.
    const std::size_t limit = std::min(max, in_.remaining_bytes());
    if (!error_ && count > limit) error_ = corrupt("a list of {} elements, limit {}", count, limit);
    for (std::size_t i = 0; i < count && !error_; ++i) each(values.emplace_back());
  }
  void check(bool holds, const char* what) {
    if (!error_ && !holds) error_ = Error{.code = ErrorCode::kCorrupt, .message = what};
  }

  Result<void> outcome() const {
    if (error_) return *error_;
    return {};
  }

 private:
  template <typename T, typename Read>
  void take(T& value, Read read) {
    if (read.has_value()) {
      value = *std::move(read);
    } else {
      error_ = std::move(read).error();
    }
  }

  Reader& in_;
  std::optional<Error> error_;
};

template <typename T>
void write_fields(Writer& out, const T& value) {
  FieldWriter writer(out);
  fields(writer, value);
}

template <typename T>
Result<T> read_fields(Reader& in) {
  T value{};
  FieldReader reader(in);
  fields(reader, value);
  TALLY_TRY(reader.outcome());
  return value;
}

// A body that has these fields and nothing else.
template <typename T>
std::vector<std::byte> encode_fields(const T& value) {
  Writer out;
  write_fields(out, value);
  return out.take();
}

template <typename T>
Result<T> decode_fields(std::span<const std::byte> bytes) {
  Reader in(bytes);
  TALLY_TRY(T value, read_fields<T>(in));
  TALLY_TRY(in.end());
  return value;
}

}  // namespace tally::wire
