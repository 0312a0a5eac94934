#pragma once
#include <fmt/format.h>

#include <string>
#include <utility>

#include "tally/error.h"

namespace tally {

// Errors by their code, with a message or with a format and its arguments.

inline Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalid, .message = std::move(message)};
}

template <typename First, typename... Rest>
Error invalid(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  return invalid(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}

inline Error corrupt(std::string message) {
  return {.code = ErrorCode::kCorrupt, .message = std::move(message)};
}

template <typename First, typename... Rest>
Error corrupt(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  return corrupt(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}

// kSystem.
inline Error system_failure(std::string message) {
  return {.code = ErrorCode::kSystem, .message = std::move(message)};
}

template <typename First, typename... Rest>
Error system_failure(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  return system_failure(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}

}  // namespace tally
