#include "group/rendezvous_note.h"

#include <gtest/gtest.h>

#include "group/secret_text.h"

namespace tally::group {
namespace {

TEST(RendezvousPoint, NoteTellsItWhole) {
  const auto secret = fresh_secret();
  ASSERT_TRUE(secret.has_value());
  for (const char* host : {"127.0.0.1", "fd00::2", "node-1.example"}) {
    RendezvousPoint told;
    told.address = {host, 4711};
    told.secret = *secret;
    const std::string note = to_note(told);
    EXPECT_EQ(note.find_first_of(" ="), std::string::npos);
    const auto place = read_note(note);
    ASSERT_TRUE(place.has_value()) << note;
    EXPECT_EQ(place->address, (net::Address{host, 4711}));
    EXPECT_EQ(place->secret->bytes, secret->bytes);
  }
  const auto open = read_note(to_note({.address = {"::1", 1}, .secret = std::nullopt}));
  ASSERT_TRUE(open.has_value());
  EXPECT_FALSE(open->secret.has_value());
}

TEST(RendezvousPoint, AnythingElseIsCorrupt) {
  const std::string digits(64, 'a');
  const std::vector<std::string> notes = {"",
                                          "hello",
                                          "tally1,,1,-",
                                          "tally1,h,0,-",
                                          "tally1,h,70000,-",
                                          "tally1,h,1x,-",
                                          "tally1,h,,-",
                                          "tally2,h,1," + digits,
                                          "tally1,h,1," + digits + "a",
                                          "tally1,h,1," + digits + ",",
                                          "tally1,h,1,g" + digits.substr(1),
                                          "tally1," + std::string(400, 'h') + ",1,-"};
  for (const std::string& note : notes) {
    const auto place = read_note(note);
    ASSERT_FALSE(place.has_value()) << note;
    EXPECT_EQ(place.error().code, ErrorCode::kCorrupt);
  }
}

TEST(SecretText, FreshSecretsDiffer) { EXPECT_NE(fresh_secret()->bytes, fresh_secret()->bytes); }

}  // namespace
}  // namespace tally::group
