#pragma once
#include <string>
#include <utility>

#include "tally/error.h"

namespace tally {

inline Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalid, .message = std::move(message)};
}

inline Error corrupt(std::string message) {
  return {.code = ErrorCode::kCorrupt, .message = std::move(message)};
}

}  // namespace tally
