#include "server/part/book.h"

#include <gtest/gtest.h>

namespace tally::server {
namespace {

using Standing = Receipts::Standing;

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
