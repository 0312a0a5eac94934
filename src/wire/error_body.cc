#include "wire/error_body.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/errors.h"
#include "wire/bytes.h"

namespace tally::wire {
namespace {

// The number of a code on the wire is its index here; it does not depend on the enum.
constexpr std::array kCodes = {
    ErrorCode::kPeerLost,  ErrorCode::kTimeout, ErrorCode::kCorrupt, ErrorCode::kMismatch,
    ErrorCode::kRefused,   ErrorCode::kInvalid, ErrorCode::kStale,   ErrorCode::kClosed,
    ErrorCode::kExhausted, ErrorCode::kSystem,
};

std::uint8_t number_of(ErrorCode code) {
  for (std::size_t i = 0; i < kCodes.size(); ++i) {
    if (kCodes[i] == code) return static_cast<std::uint8_t>(i);
  }
  TALLY_UNREACHABLE();
  return 0;
}

}  // namespace

std::vector<std::byte> encode_error(const Error& error) {
  Writer out;
  out.u8(number_of(error.code));
  out.i32(error.peer);
  out.string(std::string_view(error.message).substr(0, kMaxErrorMessageBytes));
  return out.take();
}

Result<void> decode_error(std::span<const std::byte> body, Error* into) {
  Reader in(body);
  TALLY_TRY(const std::uint8_t number, in.u8());
  TALLY_TRY(const std::int32_t peer, in.i32());
  TALLY_TRY(std::string message, in.string(kMaxErrorMessageBytes));
  TALLY_TRY(in.end());
  if (number >= kCodes.size() || peer < kNoRank) {
    return corrupt("error body with code {}, peer {}", number, peer);
  }
  *into = Error{.code = kCodes[number], .peer = peer, .message = std::move(message)};
  return {};
}

}  // namespace tally::wire
