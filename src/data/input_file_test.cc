#include "data/input_file.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "data/test_files.h"

namespace tally::data {
namespace {

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(InputFile, PlainAndPackedReadTheSame) {
  const TestFolder folder;
  std::string content;
  for (int i = 0; i < 300000; ++i) content += std::to_string(i);
  const auto plain = read_file(folder.write("a", content));
  const auto packed = read_file(folder.write_gzip("a.gz", content));
  ASSERT_TRUE(plain.has_value());
  ASSERT_TRUE(packed.has_value()) << packed.error().message;
  EXPECT_EQ(text_of(*plain), content);
  EXPECT_EQ(text_of(*packed), content);
  EXPECT_EQ(*first_bytes(folder.path() / "a.gz", 4096), content.substr(0, 4096));
  EXPECT_EQ(*first_bytes(folder.path() / "a", 4096), content.substr(0, 4096));
}

TEST(InputFile, PackedFilesBehindEachOtherAreOne) {
  const std::string packed = gzip_of("one, ") + gzip_of("") + gzip_of("two");
  const auto bytes = unpack_gzip(bytes_of(packed), "f", {.max_bytes = 100});
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  EXPECT_EQ(text_of(*bytes), "one, two");
}

TEST(InputFile, PackedFileCutOffAnywhereIsCorrupt) {
  const std::string packed = gzip_of("a text of some length, some length, some length");
  for (std::size_t length = 2; length < packed.size(); ++length) {
    const auto bytes = unpack_gzip(bytes_of(packed.substr(0, length)), "f", {.max_bytes = 1000});
    ASSERT_FALSE(bytes.has_value()) << length;
    EXPECT_EQ(bytes.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(bytes.error().message,
              "f: offset " + std::to_string(length) +
                  ": expected the rest of the gzip data, found the end of the file");
  }
}

TEST(InputFile, DamagedPackedFileIsCorrupt) {
  std::string packed = gzip_of("a text of some length, some length, some length");
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 0x40);  // the CRC
  const auto bytes = unpack_gzip(bytes_of(packed), "f", {.max_bytes = 1000});
  ASSERT_FALSE(bytes.has_value());
  EXPECT_NE(bytes.error().message.find("incorrect data check"), std::string::npos)
      << bytes.error().message;
}

TEST(InputFile, LimitHoldsForWhatIsUnpacked) {
  const TestFolder folder;
  const auto file = folder.write_gzip("bomb.gz", std::string(10 << 20, 'x'));
  const auto bytes = read_file(file, {.max_bytes = 1 << 20});
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(read_file(folder.write("large", std::string(100, 'x')), {.max_bytes = 99}).error().code,
            ErrorCode::kExhausted);
}

// So many workers that the share of one is less than a file of 100 bytes.
TEST(InputFile, WorkersOfAHostShareItsMemory) {
  const TestFolder folder;
  const auto file = folder.write("table", std::string(100, 'x'));
  EXPECT_TRUE(read_file(file, {.readers = 8}).has_value());
  const auto shared = read_file(file, {.readers = 2000000000});
  ASSERT_FALSE(shared.has_value());
  EXPECT_EQ(shared.error().code, ErrorCode::kExhausted);
  EXPECT_NE(shared.error().message.find("a third of the memory that each of 2000000000 workers "
                                        "on this host may use: fewer workers need less"),
            std::string::npos)
      << shared.error().message;
}

TEST(InputFile, DecompressionBombIsRefusedByItsRatio) {
  const std::string member = gzip_of(std::string(1 << 20, 'a'));
  std::string packed;
  for (int i = 0; i < 80; ++i) packed += member;
  const auto bytes = unpack_gzip(bytes_of(packed), "f", {});
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().message,
            "f: the content is more than 64MiB, far more than data pack into so few bytes; unpack "
            "the file if this is right");
}

TEST(InputFile, PipesSocketsAndDevicesAreRefusedAtOnce) {
  const TestFolder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    EXPECT_EQ(
        read_file(path).error().message,
        path + " is not a regular file: write the data into one, which every worker can read");
    EXPECT_EQ(first_bytes(path, 10).error().code, ErrorCode::kInvalid);
  }
}

TEST(InputFile, FolderIsNoFile) {
  const TestFolder folder;
  const auto bytes = read_file(folder.path());
  ASSERT_FALSE(bytes.has_value());
  EXPECT_NE(bytes.error().message.find("a file is wanted here"), std::string::npos);
}

}  // namespace
}  // namespace tally::data
