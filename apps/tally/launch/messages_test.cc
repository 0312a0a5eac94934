#include "apps/tally/launch/messages.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/bytes.h"
#include "wire/framing.h"

namespace tally::launch {
namespace {

Result<void> decoded(std::span<const std::byte> kind_and_body) {
  Message message;
  return decode(kind_and_body, message);
}

std::vector<Message> one_of_each() {
  Launch launch{.command = {"./prog", "", "a b", "\xff'\"$"},
                .variables = {{"PATH", "/bin"}, {"EMPTY", ""}},
                .folder = "/home/me",
                .first_rank = 3,
                .ranks = 4,
                .binding = Binding::kNone,
                .lease_ms = 30000};
  launch.secret.bytes[31] = std::byte{7};
  return {Reserve{},
          launch,
          Signal{.number = 15},
          Ping{},
          Hello{.version = 1, .pid = 77, .host = "a"},
          Reserved{.port = 40000},
          Started{.rank = 3, .pid = 78},
          Output{.rank = 3, .stream = Stream::kErrors, .bytes = std::string("a\0\n\xff", 4)},
          Ended{.rank = 3, .code = 127, .signal = 0, .note = "no such file"},
          Trouble{.text = "no such folder"}};
}

TEST(Messages, ComeBackAsTheyWere) {
  ASSERT_EQ(one_of_each().size(), std::variant_size_v<Message>);
  for (const Message& message : one_of_each()) {
    const auto bytes = encode(message);
    Message back;
    const auto outcome = decode(bytes, back);
    ASSERT_TRUE(outcome.has_value()) << message.index() << outcome.error().message;
    EXPECT_EQ(back, message) << message.index();
  }
}

TEST(Messages, CutOrLengthenedOnesAreCorrupt) {
  for (const Message& message : one_of_each()) {
    std::vector<std::byte> bytes = encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      EXPECT_FALSE(decoded(std::span(bytes).first(length)).has_value())
          << message.index() << " cut to " << length;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decoded(bytes).has_value()) << message.index();
  }
}

TEST(Messages, ValuesThatNobodySendsAreCorrupt) {
  const std::vector<Message> cases = {
      Launch{},                                    // no command
      Launch{.command = {"a"}, .first_rank = -1},  //
      Launch{.command = {"a"}, .first_rank = std::numeric_limits<int>::min()},
      Launch{.command = {"a"}, .first_rank = std::numeric_limits<int>::max()},
      Launch{.command = {"a"}, .ranks = 0},  //
      Launch{.command = {"a"}, .first_rank = 1, .ranks = 4096},
      Launch{.command = {"a"}, .binding = static_cast<Binding>(3)},
      Launch{.command = {std::string("a\0b", 3)}},
      Signal{.number = 0},
      Signal{.number = 65},
      Started{.rank = 4096},
      Output{.rank = -1},
      Output{.stream = static_cast<Stream>(2)},
      Output{.bytes = std::string(kMaxOutputBytes + 1, 'x')},
      Ended{.code = 256},
      Ended{.signal = -1},
  };
  for (const Message& message : cases) {
    const auto bytes = encode(message);
    const auto back = decoded(bytes);
    ASSERT_FALSE(back.has_value()) << message.index();
    EXPECT_EQ(back.error().code, ErrorCode::kCorrupt);
  }
  EXPECT_FALSE(decoded(std::vector<std::byte>{std::byte{99}}).has_value());
}

TEST(Messages, AnnouncedElementsMustBeThere) {
  wire::Writer body;
  body.u8(1);           // Launch
  body.u32(1U << 31U);  // more words than fit
  EXPECT_FALSE(decoded(body.view()).has_value());
}

// The framing itself is tested in wire/framing_test.cc.
TEST(Messages, ComeOutOfAFrameBufferHoweverTheBytesArrive) {
  std::vector<std::byte> all;
  for (const Message& message : one_of_each()) {
    const auto bytes = wire::frame(wire::Framing::kLengthPrefix, encode(message));
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, all.size()}) {
    wire::FrameBuffer buffer(wire::Framing::kLengthPrefix);
    std::vector<Message> seen;
    for (std::size_t start = 0; start < all.size(); start += step) {
      buffer.add(std::span(all).subspan(start, std::min(step, all.size() - start)));
      for (auto next = buffer.next(); next.has_value() && *next; next = buffer.next())
        ASSERT_TRUE(decode(**next, seen.emplace_back()).has_value());
    }
    EXPECT_EQ(seen, one_of_each()) << step;
  }
}

}  // namespace
}  // namespace tally::launch
