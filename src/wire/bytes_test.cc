#include "wire/bytes.h"

#include <gtest/gtest.h>

namespace tally::wire {
namespace {

TEST(Bytes, ReaderGivesBackWhatWriterWrote) {
  Writer out;
  out.u8(0xAB);
  out.u32(0xDEADBEEF);
  out.u64(0x0123456789ABCDEF);
  out.i32(-7);
  out.string("tally");
  out.string("");
  out.bytes(std::as_bytes(std::span("xyz", 3)));

  Reader in(out.view());
  EXPECT_EQ(in.u8().value(), 0xAB);
  EXPECT_EQ(in.u32().value(), 0xDEADBEEF);
  EXPECT_EQ(in.u64().value(), 0x0123456789ABCDEF);
  EXPECT_EQ(in.i32().value(), -7);
  EXPECT_EQ(in.string(5).value(), "tally");
  EXPECT_EQ(in.string(0).value(), "");
  EXPECT_FALSE(in.end().has_value());
  EXPECT_EQ(in.bytes(3).value().size(), 3U);
  EXPECT_TRUE(in.end().has_value());
}

TEST(Bytes, IntegersAreLittleEndian) {
  Writer out;
  out.u32(0x01020304);
  EXPECT_EQ(out.view()[0], std::byte{4});
  EXPECT_EQ(out.view()[3], std::byte{1});
}

// A truncated body is kCorrupt at any length, and a failed read consumes nothing.
TEST(Bytes, NothingIsReadPastTheEnd) {
  Writer out;
  out.u64(1);
  out.string("hello");
  const std::vector<std::byte> whole = out.take();
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    const auto part = std::span(whole).first(cut);
    Reader in(part);
    const auto number = in.u64();
    EXPECT_EQ(number.has_value(), cut >= 8);
    if (!number) continue;
    const std::size_t before = in.remaining_bytes();
    const auto text = in.string(100);
    ASSERT_FALSE(text.has_value()) << "cut at " << cut;
    EXPECT_EQ(text.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(in.remaining_bytes(), before);
  }
}

TEST(Bytes, StringOverItsLimitIsCorrupt) {
  Writer out;
  out.string("abcdef");
  Reader in(out.view());
  EXPECT_EQ(in.string(5).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(in.string(6).value(), "abcdef");
}

TEST(Bytes, LengthOfFourGigabytesAllocatesNothing) {
  Writer out;
  out.u32(0xFFFFFFFF);
  Reader in(out.view());
  EXPECT_EQ(in.string(~std::size_t{0}).error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace tally::wire
