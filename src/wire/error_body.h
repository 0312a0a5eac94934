#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "tally/error.h"

namespace tally::wire {

inline constexpr std::size_t kMaxErrorMessageBytes = 4096;

// The payload of a kAbort frame: u8 code, i32 peer, string message. A longer message is cut.
std::vector<std::byte> encode_error(const Error& error);

// Decodes an Error into `*into`. kCorrupt, with `*into` untouched, unless encode_error() could have
// made the bytes. (Result<Error> could not tell the two errors apart.)
Result<void> decode_error(std::span<const std::byte> body, Error* into);

}  // namespace tally::wire
