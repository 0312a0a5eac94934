#include <gtest/gtest.h>

#include "server/part/receipts.h"

namespace tally::server {
namespace {

using Standing = Receipts::Standing;

TEST(Receipts, TellWhatBecameOfAPush) {
  Receipts receipts;
  EXPECT_EQ(receipts.standing(3), Standing::kNew);
  receipts.apply(3);
  EXPECT_EQ(receipts.standing(3), Standing::kApplied);
  EXPECT_TRUE(receipts.hold(5));
  receipts.apply(7);
  EXPECT_EQ(receipts.standing(5), Standing::kHeld);
  EXPECT_EQ(receipts.standing(6), Standing::kApplied);
  receipts.drop(5);
  EXPECT_EQ(receipts.standing(5), Standing::kDropped);
  EXPECT_EQ(receipts.last(), 7U);
}

TEST(Receipts, RememberSoMany) {
  Receipts receipts;
  for (std::uint64_t i = 1; i <= Receipts::kMaxHeld; ++i) EXPECT_TRUE(receipts.hold(i));
  EXPECT_FALSE(receipts.hold(1000));
  EXPECT_TRUE(receipts.hold(1));
  for (std::uint64_t i = 2000; i <= 2000 + Receipts::kMaxDropped; ++i) receipts.drop(i);
  EXPECT_EQ(receipts.standing(2000), Standing::kApplied);
  EXPECT_EQ(receipts.standing(2001), Standing::kDropped);
}

TEST(Book, ComesBackFromItsBytesAndNothingElseDoes) {
  Book book{.round = std::vector<std::byte>(5), .dropped = 9};
  book.workers[4].hold(2);
  book.workers[4].drop(3);
  book.workers[7].apply(8);
  const auto bytes = encode(book);
  const auto back = decode_book(bytes);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(encode(*back), bytes);
  EXPECT_EQ(back->workers.at(4).standing(2), Standing::kHeld);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_book(std::span(bytes).first(length)).has_value());
}

}  // namespace

}  // namespace tally::server
