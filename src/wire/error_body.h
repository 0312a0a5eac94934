#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "tally/error.h"

namespace tally::wire {

inline constexpr std::size_t kMaxErrorMessageBytes = 4096;

// The payload of a kAbort frame: u8 code, i32 peer, string message. A longer message is cut.
std::vector<std::byte> encode_error(const Error& error);

// kCorrupt unless the bytes are an Error that encode_error() could have made; the Error it carries
// arrives in `*into`, which is untouched otherwise. (Result<Error> could not tell the two apart.)
Result<void> decode_error(std::span<const std::byte> body, Error* into);

}  // namespace tally::wire
