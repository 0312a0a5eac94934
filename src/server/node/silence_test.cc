#include "server/node/silence.h"

#include <gtest/gtest.h>

namespace tally::server {
namespace {

using namespace std::chrono_literals;

TEST(Silence, AMemberIsGivenUpWhereThatLosesNothingOrItsEndCannotBeSeen) {
  using enum SilenceVerdict;
  const SilenceLimits patient{.silence = 5s, .waits_for_living = true, .failover = 30s};
  const SilenceLimits strict{.silence = 5s, .waits_for_living = false, .failover = 30s};
  const SilenceLimits hasty{.silence = 5s, .waits_for_living = true, .failover = 1s};
  struct Case {
    SilenceLimits limits;
    SilentMember member;
    SilenceVerdict verdict;
  };
  const Case cases[] = {
      {patient, {.silence = 5s}, kFine},
      {patient, {.silence = 6s}, kGiveUp},
      {patient, {.silence = 6s, .is_copied = true}, kGiveUp},
      {patient, {.silence = 5s, .lives = true}, kFine},
      {patient, {.silence = 6s, .lives = true}, kWait},
      {patient, {.silence = 24h, .lives = true}, kWait},
      {patient, {.silence = 6s, .lives = true, .is_copied = true}, kWait},
      {patient, {.silence = 30s, .lives = true, .is_copied = true}, kWait},
      {patient, {.silence = 31s, .lives = true, .is_copied = true}, kGiveUp},
      {strict, {.silence = 5s, .lives = true, .is_copied = true}, kFine},
      {strict, {.silence = 6s, .lives = true}, kGiveUp},
      {hasty, {.silence = 1s, .lives = true, .is_copied = true}, kFine},
      {hasty, {.silence = 2s, .lives = true, .is_copied = true}, kGiveUp},
      {hasty, {.silence = 2s, .lives = true}, kFine},
      {hasty, {.silence = 2s}, kFine},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(judge(one.member, one.limits), one.verdict)
        << one.member.silence.count() << " ns, lives " << one.member.lives << ", copied "
        << one.member.is_copied;
    if (one.verdict == kGiveUp) {
      EXPECT_GT(one.member.silence, one.limits.shortest());
    }
  }
}

}  // namespace
}  // namespace tally::server
