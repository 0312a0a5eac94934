#include "recipes/word2vec/text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tally::word2vec {
namespace {

using testing::ElementsAre;

std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The words of a text, with "|" for each end of line.
std::vector<std::string> items_of(std::span<const std::byte> text, Words words) {
  std::vector<std::string> items;
  WordReader reader(text, words);
  for (auto item = reader.next(); item != WordReader::Item::kEnd; item = reader.next())
    items.emplace_back(item == WordReader::Item::kWord ? reader.word() : "|");
  EXPECT_EQ(reader.next(), WordReader::Item::kEnd);
  return items;
}

TEST(WordReader, LowersLettersAndKeepsApostrophesInside) {
  EXPECT_THAT(items_of(text_bytes("It's 'Tis, dogs' -- 3 MEN.\nB\xC3\xA9lla"), Words::kLower),
              ElementsAre("it's", "tis", "dogs", "men", "|", "b\xC3\xA9lla"));
}

TEST(WordReader, TakesPlainWordsAsTheyAre) {
  EXPECT_THAT(items_of(text_bytes(" It's,\t3\r\n\nx "), Words::kPlain),
              ElementsAre("It's,", "3", "|", "|", "x"));
  EXPECT_TRUE(items_of({}, Words::kPlain).empty());
}

TEST(WordReader, LeavesOutWhatIsTooLongForAWord) {
  const std::string longest(kMaxWordBytes, 'x');
  EXPECT_THAT(items_of(text_bytes(fmt::format("a {0} {0}x b", longest)), Words::kPlain),
              ElementsAre("a", longest, "b"));
}

TEST(PartOf, PartsHaveAllWordsOnce) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += fmt::format("{}{}", i * i, i % 7 == 0 ? "\n" : " ");
  const auto all = items_of(text_bytes(text), Words::kPlain);
  for (const std::size_t parts : {1, 2, 3, 7, 64, 5000}) {
    std::vector<std::string> together;
    std::size_t bytes = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      const auto piece = part_of(text_bytes(text), part, parts);
      bytes += piece.size();
      for (const std::string& item : items_of(piece, Words::kPlain)) together.push_back(item);
    }
    EXPECT_EQ(together, all) << parts;
    EXPECT_EQ(bytes, text.size()) << parts;
  }
}

TEST(Normalised, HasSoManyWordsALine) {
  EXPECT_EQ(normalised(text_bytes("One, two\nthree. Four five"), Words::kLower, 2),
            "one two\nthree four\nfive\n");
  EXPECT_EQ(normalised(text_bytes("  "), Words::kLower, 2), "");
}

}  // namespace
}  // namespace tally::word2vec
