#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tally {

// The number of a member in a group, from 0.
using Rank = int;
inline constexpr Rank kNoRank = -1;

// Errors that callers handle differently. The message has the details.
enum class ErrorCode {
  kPeerLost,   // a rank's process or connection ended
  kTimeout,    // the deadline passed; `peer` is the awaited rank
  kCorrupt,    // bytes that no correct peer or writer produces
  kMismatch,   // ranks called different operations, counts, types or sizes
  kRefused,    // refused: wrong secret, duplicate rank, other protocol version
  kInvalid,    // wrong arguments of the caller
  kStale,      // belongs to an older version or generation
  kClosed,     // used after close()
  kExhausted,  // out of memory, descriptors or another bounded resource
  kSystem,     // a system call failed
};

std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kSystem;
  Rank peer = kNoRank;  // the rank that caused the error, if known
  std::string message;
};

// "kPeerLost (rank 2): connection closed".
std::string to_string(const Error& error);

// The end of a program that takes the wrong side of a Result: prints which error there is, aborts.
[[noreturn]] void taken_value_of(const Error& error);
[[noreturn]] void taken_error_of_value();

// A value, or the Error that prevented it. value() and error() end the program if there is none:
// ask has_value() before. Threads: as its T.
template <typename T>
class [[nodiscard]] Result {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): allows `return value;`.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): allows `return Error{...};`.
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    check_value();
    return std::get<0>(state_);
  }
  const T& value() const& {
    check_value();
    return std::get<0>(state_);
  }
  T&& value() && {
    check_value();
    return std::get<0>(std::move(state_));
  }
  Error& error() & {
    check_error();
    return std::get<1>(state_);
  }
  const Error& error() const& {
    check_error();
    return std::get<1>(state_);
  }
  Error&& error() && {
    check_error();
    return std::get<1>(std::move(state_));
  }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void check_value() const {
    if (!has_value()) taken_value_of(std::get<1>(state_));
  }
  void check_error() const {
    if (has_value()) taken_error_of_value();
  }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  Error& error() & {
    check_error();
    return *error_;
  }
  const Error& error() const& {
    check_error();
    return *error_;
  }
  Error&& error() && {
    check_error();
    return *std::move(error_);
  }

 private:
  void check_error() const {
    if (has_value()) taken_error_of_value();
  }

  std::optional<Error> error_;
};

}  // namespace tally

#define TALLY_CONCAT_INNER(a, b) a##b
#define TALLY_CONCAT(a, b) TALLY_CONCAT_INNER(a, b)
#define TALLY_TRY_2(declaration, expression)                      \
  auto TALLY_CONCAT(tally_try_, __LINE__) = (expression);         \
  if (!TALLY_CONCAT(tally_try_, __LINE__).has_value())            \
    return std::move(TALLY_CONCAT(tally_try_, __LINE__)).error(); \
  declaration = std::move(TALLY_CONCAT(tally_try_, __LINE__)).value()
#define TALLY_TRY_1(expression) \
  if (auto tally_try = (expression); !tally_try.has_value()) return std::move(tally_try).error()
#define TALLY_TRY_PICK(_1, _2, name, ...) name

// TALLY_TRY(expression) or TALLY_TRY(declaration, expression): returns the Error to the caller, or
// continues with the value. The expression may contain commas only inside parentheses.
#define TALLY_TRY(...) TALLY_TRY_PICK(__VA_ARGS__, TALLY_TRY_2, TALLY_TRY_1, )(__VA_ARGS__)
