#pragma once
#include <string>
#include <string_view>

#include "tally/error.h"
#include "tally/job.h"

namespace tally::group {

// 32 random bytes from the system.
Result<Secret> fresh_secret();

// 64 hexadecimal digits, and back; kInvalid for any other text.
std::string to_hex(const Secret& secret);
Result<Secret> secret_from_hex(std::string_view digits);

}  // namespace tally::group
