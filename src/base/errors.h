#pragma once
#include <fmt/format.h>

#include <string>
#include <utility>

#include "tally/error.h"

namespace tally {

// An Error with a message in the format of fmt: make_error(ErrorCode::kSystem, "no port {}", port).
template <typename... Args>
Error make_error(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  return {.code = code, .message = fmt::format(text, std::forward<Args>(args)...)};
}
// The same, caused by `peer`.
template <typename... Args>
Error make_error(ErrorCode code, Rank peer, fmt::format_string<Args...> text, Args&&... args) {
  return {.code = code, .peer = peer, .message = fmt::format(text, std::forward<Args>(args)...)};
}

// Errors by their code, with a message or with a format and its arguments.

inline Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalid, .message = std::move(message)};
}
template <typename First, typename... Rest>
Error invalid(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  return make_error(ErrorCode::kInvalid, text, std::forward<First>(first),
                    std::forward<Rest>(rest)...);
}

inline Error corrupt(std::string message) {
  return {.code = ErrorCode::kCorrupt, .message = std::move(message)};
}
template <typename First, typename... Rest>
Error corrupt(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  return make_error(ErrorCode::kCorrupt, text, std::forward<First>(first),
                    std::forward<Rest>(rest)...);
}

// kSystem.
inline Error system_failure(std::string message) {
  return {.code = ErrorCode::kSystem, .message = std::move(message)};
}
template <typename First, typename... Rest>
Error system_failure(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  return make_error(ErrorCode::kSystem, text, std::forward<First>(first),
                    std::forward<Rest>(rest)...);
}

}  // namespace tally
