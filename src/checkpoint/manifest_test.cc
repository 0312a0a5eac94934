#include "checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/test_content.h"
#include "kernel/crc32c/crc32c.h"

namespace tally::checkpoint {
namespace {

Manifest test_manifest() {
  return {.step = 120,
          .ranks = 2,
          .tensors = test_tensors(),
          .state_tensors = test_state_tensors(),
          .files = {{"model.safetensors", 1000, 0xDEADBEEF},
                    {"state.json", 20, 1},
                    {"optimizer-00000-of-00002.safetensors", 5, 0},
                    {"optimizer-00001-of-00002.safetensors", 6, 0xFFFFFFFF}}};
}

// A manifest with the given body and a matching checksum.
std::string with_body(const std::string& body) {
  return fmt::format("{{\"manifest_crc32c\":\"{}\",\n{}",
                     checksum_text(kernel::crc32c_reference(std::as_bytes(std::span(body)))), body);
}

std::string replaced(const std::string& what, const std::string& by) {
  std::string text = to_text(test_manifest());
  text = text.substr(text.find('\n') + 1);
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return with_body(text.replace(at, what.size(), by));
}

TEST(Manifest, TextGivesTheSameManifestAgain) {
  const auto read = manifest_from_text(to_text(test_manifest()));
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  EXPECT_EQ(*read, test_manifest());
}

TEST(Manifest, FlippedBitAnywhereIsFound) {
  const std::string text = to_text(test_manifest());
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto read = manifest_from_text(damaged);
    ASSERT_FALSE(read.has_value()) << "bit " << bit;
    ASSERT_EQ(read.error().code, ErrorCode::kCorrupt);
  }
}

TEST(Manifest, CutOffAnywhereIsFound) {
  const std::string text = to_text(test_manifest());
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes)
    ASSERT_FALSE(manifest_from_text(text.substr(0, bytes)).has_value()) << bytes;
}

TEST(Manifest, WhatWeWouldNotWriteIsRefusedThoughItsChecksumIsRight) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"\"step\":120", "\"step\":-1", "no step"},
      {"\"ranks\":2", "\"ranks\":0", "number of ranks"},
      {"\"ranks\":2", "\"ranks\":100000", "number of ranks"},
      {"\"ranks\":2", "\"ranks\":3", "the 5 files of 3 ranks"},
      {"model.safetensors", "../model.safetensors", "of model.safetensors"},
      {"00001-of", "00000-of", "of optimizer-00001-of-00002.safetensors"},
      {"deadbeef", "DEADBEEF", "no crc32c"},
      {"deadbeef", "deadbeeg", "no crc32c"},
      {"\"bytes\":20", "\"bytes\":20.5", "of \"state.json\""},
      {"checkpoint 1", "checkpoint 2", "format"},
      {"\"mask\"", "\"conv.weight\"", "two have this name"},
      {"\"mask\"", "\"__mask\"", "does not begin with"},
      {"\"U8\"", "\"U9\"", "dtype"},
  };
  for (const auto& [what, by, message] : cases) {
    const auto read = manifest_from_text(replaced(what, by));
    ASSERT_FALSE(read.has_value()) << by;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(read.error().message, testing::HasSubstr(message)) << by;
  }
}

}  // namespace
}  // namespace tally::checkpoint
