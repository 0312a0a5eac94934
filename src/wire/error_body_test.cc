#include "wire/error_body.h"

#include <gtest/gtest.h>

#include "wire/bytes.h"

namespace tally::wire {
namespace {

TEST(ErrorBody, EveryCodeArrivesAsItWas) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kSystem); ++code) {
    const Error sent{.code = static_cast<ErrorCode>(code), .peer = code - 1, .message = "why"};
    Error arrived;
    ASSERT_TRUE(decode_error(encode_error(sent), &arrived).has_value());
    EXPECT_EQ(arrived.code, sent.code);
    EXPECT_EQ(arrived.peer, sent.peer);
    EXPECT_EQ(arrived.message, sent.message);
  }
}

TEST(ErrorBody, LongMessageIsCut) {
  const Error sent{.message = std::string(10000, 'x')};
  Error arrived;
  ASSERT_TRUE(decode_error(encode_error(sent), &arrived).has_value());
  EXPECT_EQ(arrived.message.size(), kMaxErrorMessageBytes);
}

TEST(ErrorBody, LiesAreCorruptAndLeaveTheTargetAlone) {
  Writer unknown_code;
  unknown_code.u8(200);
  unknown_code.i32(0);
  unknown_code.string("");
  Writer bad_peer;
  bad_peer.u8(0);
  bad_peer.i32(-2);
  bad_peer.string("");
  Writer trailing;
  trailing.bytes(encode_error({.message = "m"}));
  trailing.u8(0);
  for (const auto body :
       {unknown_code.view(), bad_peer.view(), trailing.view(), std::span<const std::byte>()}) {
    Error arrived{.code = ErrorCode::kClosed, .message = "mine"};
    const auto decoded = decode_error(body, &arrived);
    ASSERT_FALSE(decoded.has_value());
    EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(arrived.message, "mine");
  }
}

}  // namespace
}  // namespace tally::wire
