#include "data/text.h"

#include <gtest/gtest.h>

#include "data/test_files.h"

namespace tally::data {
namespace {

using TextValues = std::vector<float>;

Result<std::unique_ptr<Dataset>> make(const std::string& text, const TextOptions& options) {
  return make_text(bytes_of(text), "t", options);
}

TEST(Text, WindowsFollowEachOtherAndTargetsAreOneFurther) {
  const auto text = make("abcabcabca", {.context = 3, .validation = 0});
  ASSERT_TRUE(text.has_value());
  const Dataset& dataset = **text;
  EXPECT_EQ(dataset.size(), 3U);
  EXPECT_EQ(dataset.shape().input, std::vector<std::int64_t>{3});
  EXPECT_EQ(dataset.shape().target_type, DataType::kInt64);
  EXPECT_EQ(dataset.classes(), (std::vector<std::string>{"a", "b", "c"}));
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sample_of(dataset, i).input, (TextValues{0, 1, 2}));
    EXPECT_EQ(sample_of(dataset, i).target, (TextValues{1, 2, 0}));
  }
}

TEST(Text, CharactersAreThoseOfUtf8InTheOrderOfTheirCodes) {
  const auto text = make("z\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82z", {.context = 2, .validation = 0});
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_EQ((*text)->classes(),
            (std::vector<std::string>{"z", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x99\x82"}));
  EXPECT_EQ(sample_of(**text, 1).input, (TextValues{2, 3}));
  EXPECT_EQ(sample_of(**text, 1).target, (TextValues{3, 0}));
}

TEST(Text, BytesAreTheirOwnNumbers) {
  const auto text = make("\xFF\x01g", {.level = TextLevel::kByte, .context = 2, .validation = 0});
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ((*text)->classes().size(), 256U);
  EXPECT_EQ(sample_of(**text, 0).input, (TextValues{255, 1}));
  EXPECT_EQ(sample_of(**text, 0).target, (TextValues{1, 103}));
}

TEST(Text, EndIsHeldOutAndTheAlphabetIsOfAll) {
  const std::string text = std::string(90, 'a') + "bcdefghijk";
  const auto train = make(text, {.context = 4, .validation = 0.1});
  const auto held_out = make(text, {.context = 4, .validation = 0.1, .train = false});
  ASSERT_TRUE(train.has_value());
  ASSERT_TRUE(held_out.has_value());
  EXPECT_EQ((*train)->size(), 22U);    // (90 - 1) / 4
  EXPECT_EQ((*held_out)->size(), 2U);  // (10 - 1) / 4
  EXPECT_EQ((*train)->classes(), (*held_out)->classes());
  EXPECT_EQ(sample_of(**held_out, 0).input, (TextValues{1, 2, 3, 4}));
}

TEST(Text, AugmentedWindowsBeginLaterAndStayInside) {
  std::string content;
  for (int i = 0; i < 64; ++i) content += static_cast<char>('A' + i % 50);
  const auto text =
      make(content, {.level = TextLevel::kByte, .context = 8, .validation = 0, .augment = true});
  ASSERT_TRUE(text.has_value());
  bool moved = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    for (std::uint64_t i = 0; i < (*text)->size(); ++i) {
      const Sample sample = sample_of(**text, i, seed);
      const auto begin =
          static_cast<std::size_t>(content.find(static_cast<char>(sample.input[0]), i * 8));
      EXPECT_LT(begin, i * 8 + 8);
      for (std::size_t k = 0; k < 8; ++k)
        EXPECT_EQ(sample.target[k], static_cast<float>(content[begin + k + 1]));
      moved = moved || begin != i * 8;
    }
  EXPECT_TRUE(moved);
}

TEST(Text, BytesThatAreNoCharacterAreNamed) {
  for (const char* bad : {"ab\xFFgh", "ab\x80gh", "ab\xC0\x80", "ab\xE2\x82", "ab\xED\xA0\x80",
                          "ab\xF4\x90\x80\x80"}) {
    const auto text = make(bad, {.context = 1, .validation = 0});
    ASSERT_FALSE(text.has_value());
    EXPECT_EQ(text.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(text.error().message.rfind("t: offset 2: expected a character in UTF-8", 0), 0U)
        << text.error().message;
  }
}

TEST(Text, TooShortForAWindowIsRefused) {
  for (const char* content : {"", "a", "abcd"}) {
    const auto text = make(content, {.context = 4, .validation = 0});
    ASSERT_FALSE(text.has_value()) << content;
    EXPECT_EQ(text.error().code, ErrorCode::kInvalid);
  }
  EXPECT_FALSE(make("abcdefghijkl", {.context = 4, .validation = 0.1, .train = false}).has_value());
  EXPECT_FALSE(make("abcdefghijkl", {.context = 0}).has_value());
  EXPECT_FALSE(make("abcdefghijkl", {.context = 1, .validation = 1.0}).has_value());
}

TEST(Text, SeveralFilesAreOneAndTheBadOneIsNamed) {
  const TestFolder folder;
  const auto a = folder.write("a.txt", "abc");
  const auto b = folder.write("b.txt", "de");
  const auto bad = folder.write("bad.txt", "x\xFF");
  const auto text = open_text({a, b}, {}, {.context = 4, .validation = 0});
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(sample_of(**text, 0).target, (TextValues{1, 2, 3, 4}));
  const auto broken = open_text({a, bad}, {}, {.context = 4, .validation = 0});
  ASSERT_FALSE(broken.has_value());
  EXPECT_EQ(broken.error().message.rfind(bad.string() + ": offset 1: ", 0), 0U)
      << broken.error().message;
}

// Every code point survives encoding and decoding.
TEST(Utf8, RoundTrip) {
  for (std::uint32_t code = 0; code <= 0x10FFFF; ++code) {
    const std::string text = utf8_of(code);
    const Character character = character_at(bytes_of(text), 0);
    if (code >= 0xD800 && code < 0xE000) {
      ASSERT_EQ(character.bytes, 0) << code;
    } else {
      ASSERT_EQ(character.code, code);
      ASSERT_EQ(static_cast<std::size_t>(character.bytes), text.size());
    }
  }
}

}  // namespace
}  // namespace tally::data
