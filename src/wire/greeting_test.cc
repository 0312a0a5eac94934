#include "wire/greeting.h"

#include <gtest/gtest.h>

namespace tally::wire {
namespace {

TEST(Greeting, ArrivesAsItWas) {
  Greeting greeting{.from = 3, .to = 1, .generation = 0xA1B2C3D4};
  greeting.token.fill(std::byte{9});
  EXPECT_EQ(decode_greeting(encode(greeting)).value(), greeting);
  const GreetingAnswer answer{.status = GreetingStatus::kDuplicate, .rank = 1, .generation = 7};
  EXPECT_EQ(decode_answer(encode(answer)).value(), answer);
}

TEST(Greeting, OtherVersionsCanBeToldApart) {
  EXPECT_EQ(decode_greeting(encode(Greeting{.version = 77})).value().version, 77);
  EXPECT_EQ(decode_answer(encode(GreetingAnswer{.version = 77})).value().version, 77);
}

TEST(Greeting, EveryAlteredBitIsNoticed) {
  const EncodedGreeting greeting = encode(Greeting{.from = 3, .to = 1});
  for (std::size_t bit = 0; bit < 8 * greeting.size(); ++bit) {
    EncodedGreeting bad = greeting;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(decode_greeting(bad).error().code, ErrorCode::kCorrupt) << "bit " << bit;
  }
  const EncodedAnswer answer = encode(GreetingAnswer{.rank = 1});
  for (std::size_t bit = 0; bit < 8 * answer.size(); ++bit) {
    EncodedAnswer bad = answer;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(decode_answer(bad).error().code, ErrorCode::kCorrupt) << "bit " << bit;
  }
}

}  // namespace
}  // namespace tally::wire
