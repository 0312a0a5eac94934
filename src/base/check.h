#pragma once
#include <string_view>
#include <type_traits>

namespace tally {

// Prints the failed condition with its source location, and the operands that
// record_failed_comparison() kept for this condition; then aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

// An operand of a failed comparison, reduced to what check.cc can print: numbers, enums, durations
// (as a count), pointers and text. Other types have no kind and are not printed.
struct CheckOperand {
  enum class Kind { kNone, kBool, kSigned, kUnsigned, kReal, kPointer, kText };
  Kind kind = Kind::kNone;
  long long integer = 0;  // kUnsigned: the same 64 bits
  double real = 0;
  const void* pointer = nullptr;
  std::string_view text = {};
};

template <typename T>
CheckOperand check_operand(const T& value) {
  using Kind = CheckOperand::Kind;
  if constexpr (std::is_same_v<T, bool>) {
    return {.kind = Kind::kBool, .integer = value};
  } else if constexpr (std::is_enum_v<T>) {
    return check_operand(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return {.kind = std::is_signed_v<T> ? Kind::kSigned : Kind::kUnsigned,
            .integer = static_cast<long long>(value)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {.kind = Kind::kReal, .real = static_cast<double>(value)};
  } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
    return {.kind = Kind::kPointer};
  } else if constexpr (std::is_pointer_v<T> && std::is_object_v<std::remove_pointer_t<T>>) {
    return {.kind = Kind::kPointer, .pointer = value};
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return {.kind = Kind::kText, .text = value};
  } else if constexpr (requires {
                         typename T::period;
                         value.count();
                       }) {
    return check_operand(value.count());
  } else {
    return {};
  }
}

// Keeps the operands for check_failed(), per thread. The operands of `condition` outlive the call.
void record_failed_comparison(const char* condition, CheckOperand left, const char* comparison,
                              CheckOperand right);

// The path of a failed comparison, out of line. Scalars are passed by value: a reference would
// force a loop counter that is checked into memory.
template <typename T>
using CheckArgument = std::conditional_t<std::is_scalar_v<T>, T, const T&>;
template <typename T, typename U>
[[gnu::noinline, gnu::cold]] void comparison_failed(const char* condition, CheckArgument<T> left,
                                                    const char* comparison,
                                                    CheckArgument<U> right) {
  record_failed_comparison(condition, check_operand<T>(left), comparison, check_operand<U>(right));
}

// Splits a condition at its first comparison: in `CheckSplit{...} << a == b` the shift binds
// tighter than ==, so the left operand arrives here alone and the comparison is one of CheckLeft's.
template <typename T>
struct CheckLeft {
  const char* condition;
  const T& left;

  constexpr explicit operator bool() const { return static_cast<bool>(left); }

// The operands lose here what the compiler knew of them, such as that a literal is not negative.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#define TALLY_CHECK_COMPARISON(op)                                    \
  template <typename U>                                               \
  constexpr bool operator op(const U& right) const {                  \
    const bool holds = static_cast<bool>(left op right);              \
    if (!holds) comparison_failed<T, U>(condition, left, #op, right); \
    return holds;                                                     \
  }
  TALLY_CHECK_COMPARISON(==)
  TALLY_CHECK_COMPARISON(!=)
  TALLY_CHECK_COMPARISON(<)
  TALLY_CHECK_COMPARISON(<=)
  TALLY_CHECK_COMPARISON(>)
  TALLY_CHECK_COMPARISON(>=)
#undef TALLY_CHECK_COMPARISON
#pragma GCC diagnostic pop
};

struct CheckSplit {
  const char* condition;
  template <typename T>
  constexpr CheckLeft<T> operator<<(const T& left) const {
    return {condition, left};
  }
};

}  // namespace tally

#if defined(__clang__)
// clang-format off
#define TALLY_CHECK_SPLIT(text, condition)                                  \
  _Pragma("clang diagnostic push")                                          \
  _Pragma("clang diagnostic ignored \"-Woverloaded-shift-op-parentheses\"") \
  static_cast<bool>(::tally::CheckSplit{text} << condition)                 \
  _Pragma("clang diagnostic pop")
// clang-format on
#else
#define TALLY_CHECK_SPLIT(text, condition) static_cast<bool>(::tally::CheckSplit{text} << condition)
#endif

// Aborts where `condition` is false, in every build: for bugs of ours, never for what a peer, a
// file or a user can cause. The message has the values of the condition's first comparison: "check
// failed: a == b (3 == 4)".
#define TALLY_CHECK(condition)              \
  (TALLY_CHECK_SPLIT(#condition, condition) \
       ? static_cast<void>(0)               \
       : ::tally::check_failed(#condition, __FILE__, __LINE__))

// Marks code that is only reached by a bug of ours.
#define TALLY_UNREACHABLE() ::tally::check_failed("unreachable", __FILE__, __LINE__)
