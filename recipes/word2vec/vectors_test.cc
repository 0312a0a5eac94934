#include "recipes/word2vec/vectors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <string>

#include "base/file.h"
#include "base/rng.h"

namespace tally::word2vec {
namespace {

using testing::HasSubstr;

std::span<const std::byte> vector_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class SavedVectors : public testing::Test {
 protected:
  std::string path(const std::string& ending) const {
    return fmt::format("{}tally_vectors_{}{}", testing::TempDir(), ::getpid(), ending);
  }
  void TearDown() override {
    for (const char* ending : {".bin", ".txt"}) std::remove(path(ending).c_str());
  }
};

TEST_F(SavedVectors, AreReadBackAsTheyWereInBothFormats) {
  Rng rng(8);
  Vectors vectors{.words = {"the", "caf\xC3\xA9", "it's", "x"}, .dimension = 7};
  for (std::size_t i = 0; i < 4 * 7; ++i)
    vectors.values.push_back(static_cast<float>(rng.uniform() - 0.5) * (i % 5 == 0 ? 1e-20F : 3));
  // A float whose bytes are spaces and line feeds.
  const std::uint32_t spaces = 0x0A20200A;
  std::memcpy(&vectors.values[9], &spaces, 4);
  for (const char* ending : {".bin", ".txt"}) {
    const auto format = format_of_name(path(ending));
    ASSERT_TRUE(format.has_value());
    ASSERT_TRUE(save_vectors(path(ending), *format, vectors.words, 7, [&](std::size_t word) {
                  return vectors.of(word);
                }).has_value());
    const auto read = load_vectors(path(ending));
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(read->words, vectors.words);
    EXPECT_EQ(read->dimension, 7U);
    EXPECT_EQ(std::memcmp(read->values.data(), vectors.values.data(), 4 * 7 * sizeof(float)), 0);
  }
}

TEST_F(SavedVectors, HaveTheBytesOfWord2vec) {
  const std::vector<float> values = {1, -0.5F, 0.25F, 2};
  const auto vector_of = [&](std::size_t word) { return std::span(values).subspan(2 * word, 2); };
  ASSERT_TRUE(
      save_vectors(path(".txt"), VectorFormat::kText, {"a", "b"}, 2, vector_of).has_value());
  EXPECT_EQ(file_contents(path(".txt")), "2 2\na 1 -0.5\nb 0.25 2\n");
  ASSERT_TRUE(
      save_vectors(path(".bin"), VectorFormat::kBinary, {"a", "b"}, 2, vector_of).has_value());
  EXPECT_EQ(file_contents(path(".bin")),
            std::string("2 2\na \0\0\x80\x3F\0\0\0\xBF\nb \0\0\x80\x3E\0\0\0\x40\n", 26));
}

TEST_F(SavedVectors, CannotBeWrittenWhereNoFolderIs) {
  const auto failed = save_vectors("/nowhere/at/all.bin", VectorFormat::kBinary, {}, 2, {});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kSystem);
}

TEST(ParseVectors, TakesSpacesAtTheEndsOfLines) {
  const auto vectors = parse_vectors(vector_bytes("2 2\n</s> 0.5 1 \nb -1e-3 2 \n"), "v");
  ASSERT_TRUE(vectors.has_value()) << vectors.error().message;
  EXPECT_THAT(vectors->values, testing::ElementsAre(0.5F, 1, -1e-3F, 2));
}

TEST(ParseVectors, RefusesWhatIsNoFileOfVectors) {
  const std::string nan_bytes("1 1\na \0\0\xC0\x7F\n", 11);
  const std::string cut_bytes("1 2\na \0\0\x80\x3F\0\0", 12);
  const std::pair<std::string, std::string> cases[] = {
      {"", "numbers of words and of dimensions"},
      {"x y\n", "numbers of words and of dimensions"},
      {"1\n", "numbers of words and of dimensions"},
      {"1 2 3\na 1 2\n", "numbers of words and of dimensions"},
      {"-1 2\n", "numbers of words and of dimensions"},
      {"1 0\na \n", "1 to 65536 dimensions"},
      {"18446744073709551615 1\na 1\n", "at most"},
      {"3 2\na 1 2\nb 1 2\n", "3 words of 2 numbers"},
      {"2 2\na 1 2\nbcdefghijk\n", "a word and a space"},
      {"2 2\na 1 2\nb 1 x\n", "a finite number"},
      {"2 2\na 1 2\nb 1 inf\n", "a finite number"},
      {"2 2\na 1 2\nb 1 2 3\n", "the end of the line"},
      {"1 2\na 1 2\nb 1 2\n", "the end"},
      {nan_bytes, "finite numbers"},
      {cut_bytes, "1 words of 2 numbers"}};
  for (const auto& [text, message] : cases) {
    const auto refused = parse_vectors(vector_bytes(text), "v");
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt) << text;
    EXPECT_THAT(refused.error().message, HasSubstr(message)) << text;
  }
}

TEST(FormatOfName, IsByTheEnding) {
  EXPECT_EQ(*format_of_name("a/b.vec"), VectorFormat::kText);
  EXPECT_EQ(*format_of_name("b.bin"), VectorFormat::kBinary);
  EXPECT_EQ(format_of_name("b.npy").error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace tally::word2vec
