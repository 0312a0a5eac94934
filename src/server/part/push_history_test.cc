#include <gtest/gtest.h>

#include "server/part/push_history.h"

namespace tally::server {
namespace {

using State = PushHistory::State;

TEST(PushHistory, TellWhatBecameOfAPush) {
  PushHistory history;
  EXPECT_EQ(history.state(3), State::kNew);
  history.apply(3);
  EXPECT_EQ(history.state(3), State::kApplied);
  EXPECT_TRUE(history.hold(5));
  history.apply(7);
  EXPECT_EQ(history.state(5), State::kHeld);
  EXPECT_EQ(history.state(6), State::kApplied);
  history.drop(5);
  EXPECT_EQ(history.state(5), State::kDropped);
  EXPECT_EQ(history.last(), 7U);
}

TEST(PushHistory, RememberSoMany) {
  PushHistory history;
  for (std::uint64_t i = 1; i <= PushHistory::kMaxHeld; ++i) EXPECT_TRUE(history.hold(i));
  EXPECT_FALSE(history.hold(1000));
  EXPECT_TRUE(history.hold(1));
  for (std::uint64_t i = 2000; i <= 2000 + PushHistory::kMaxDropped; ++i) history.drop(i);
  EXPECT_EQ(history.state(2000), State::kApplied);
  EXPECT_EQ(history.state(2001), State::kDropped);
}

TEST(PartMetadata, ComesBackFromItsBytesAndNothingElseDoes) {
  PartMetadata metadata{.round = std::vector<std::byte>(5), .dropped = 9};
  metadata.workers[4].hold(2);
  metadata.workers[4].drop(3);
  metadata.workers[7].apply(8);
  metadata.finished = Finish{.version = 3, .factor = 0.5, .value_norm = 2, .gradient_norm = 4};
  metadata.failure =
      RoundFailure{.version = 4, .why = {.code = ErrorCode::kExhausted, .message = "no memory"}};
  const auto bytes = encode(metadata);
  const auto back = decode_metadata(bytes);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(encode(*back), bytes);
  EXPECT_EQ(back->workers.at(4).state(2), State::kHeld);
  EXPECT_EQ(back->finished->gradient_norm, 4);
  EXPECT_EQ(back->failure->version, 4U);
  EXPECT_EQ(back->failure->why.message, "no memory");
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_metadata(std::span(bytes).first(length)).has_value());
}

}  // namespace

}  // namespace tally::server
