#include "server/link/greeting.h"

#include <gtest/gtest.h>

namespace tally::server {
namespace {

Token token(std::uint8_t value) {
  Token made;
  made.fill(static_cast<std::byte>(value));
  return made;
}

TEST(LinkGreeting, ComesBackAndEveryFlippedByteIsSeen) {
  const LinkGreeting greeting{.role = Role::kServer, .from = 7, .to = 9, .token = token(3)};
  const EncodedLinkGreeting good = encode(greeting);
  const auto back = decode_link_greeting(good);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(*back, greeting);
  for (std::size_t i = 0; i < good.size(); ++i) {
    EncodedLinkGreeting bad = good;
    bad[i] ^= std::byte{0x40};
    EXPECT_FALSE(decode_link_greeting(bad).has_value()) << i;
  }
}

TEST(LinkAnswer, ComesBackAndEveryFlippedByteIsSeen) {
  const LinkAnswer answer{.verdict = LinkVerdict::kOtherJob, .id = 5, .token = token(9)};
  const EncodedLinkAnswer good = encode(answer);
  const auto back = decode_link_answer(good);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(*back, answer);
  for (std::size_t i = 0; i < good.size(); ++i) {
    EncodedLinkAnswer bad = good;
    bad[i] ^= std::byte{0x40};
    EXPECT_FALSE(decode_link_answer(bad).has_value()) << i;
  }
}

TEST(LinkGreeting, IsJudged) {
  const LinkHost server{.role = Role::kServer, .id = 4, .token = token(1)};
  const LinkHost directory{.role = Role::kDirectory, .id = kDirectoryId, .token = token(1)};
  const LinkGreeting worker{.role = Role::kWorker, .from = 6, .to = 4, .token = token(1)};
  const auto with = [&](auto change) {
    LinkGreeting changed = worker;
    change(changed);
    return changed;
  };
  const struct {
    LinkGreeting greeting;
    LinkHost host;
    LinkVerdict verdict;
  } cases[] = {
      {worker, server, LinkVerdict::kWelcome},
      {with([](auto& g) { g.role = Role::kServer; }), server, LinkVerdict::kWelcome},
      {with([](auto& g) { g.version = 1; }), server, LinkVerdict::kOtherVersion},
      {with([](auto& g) { ++g.build; }), server, LinkVerdict::kOtherVersion},
      {with([](auto& g) { g.token = token(2); }), server, LinkVerdict::kOtherJob},
      {with([](auto& g) { g.to = 5; }), server, LinkVerdict::kOtherNode},
      {with([](auto& g) { g.from = kNoNode; }), server, LinkVerdict::kOtherNode},
      {with([](auto& g) { g.from = kDirectoryId; }), server, LinkVerdict::kOtherNode},
      {with([](auto& g) { g.from = 4; }), server, LinkVerdict::kOtherNode},
      {with([](auto& g) { g.role = Role::kDirectory; }), server, LinkVerdict::kOtherNode},
      {worker, directory, LinkVerdict::kOtherNode},
      {{.role = Role::kWorker}, directory, LinkVerdict::kWelcome},
      {{.role = Role::kServer}, directory, LinkVerdict::kWelcome},
      {{.version = 9, .role = Role::kServer}, directory, LinkVerdict::kOtherVersion},
      {{.role = Role::kWorker, .build = 7}, directory, LinkVerdict::kOtherVersion},
  };
  int number = 0;
  for (const auto& each : cases) {
    EXPECT_EQ(judge(each.greeting, each.host), each.verdict) << "case " << number;
    ++number;
  }
}

}  // namespace
}  // namespace tally::server
