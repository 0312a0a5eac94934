// Damages an intact checkpoint at every offset; the reader must detect every change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/manifest.h"
#include "checkpoint/test_content.h"
#include "collective/test_jobs.h"

namespace tally::checkpoint {
namespace {

namespace fs = std::filesystem;
using collective::Network;
using collective::run_ranks;
using testing::HasSubstr;

class Damage : public testing::Test {
 protected:
  void SetUp() override {
    run_ranks(Network::kInProcess, 2, [&](Job& job) {
      auto writer = Writer::make(job.world(), {.folder = folder_.path()});
      ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
      for (const std::uint64_t step : {1, 2, 3}) {
        EXPECT_TRUE((*writer)->save(test_content(job.rank(), 2, step).content).has_value());
      }
      EXPECT_TRUE((*writer)->wait(Deadline::after(std::chrono::seconds(50))).has_value());
    });
  }

  fs::path checkpoint(std::uint64_t step = 3) const { return path_of(folder_.path(), step); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(checkpoint())) paths.push_back(entry.path());
    return paths;
  }
  static std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  static Result<void> verify(const fs::path& path) {
    TALLY_TRY(const auto reader, Reader::open(path));
    return reader->verify();
  }

  const TestFolder folder_;
};

TEST_F(Damage, WholeCheckpointHasItsFiveFilesAndIsVerified) {
  EXPECT_EQ(files().size(), 5U);
  EXPECT_TRUE(verify(checkpoint()).has_value());
}

TEST_F(Damage, FlippedBitInAnyByteOfAnyFileIsFoundAndTheFileNamed) {
  for (const fs::path& path : files()) {
    const std::string text = contents(path);
    for (std::size_t place = 0; place < text.size(); ++place) {
      std::string damaged = text;
      damaged[place] = static_cast<char>(damaged[place] ^ (1 << (place % 8)));
      write(path, damaged);
      const auto outcome = verify(checkpoint());
      ASSERT_FALSE(outcome.has_value()) << path << " at " << place;
      ASSERT_EQ(outcome.error().code, ErrorCode::kCorrupt) << to_string(outcome.error());
      // A changed piece name leaves a gap in a tensor, which is an error of the whole checkpoint.
      if (path.filename().string().starts_with("optimizer"))
        ASSERT_THAT(outcome.error().message, HasSubstr(checkpoint().string()));
      else
        ASSERT_THAT(outcome.error().message, HasSubstr(path.string()));
    }
    write(path, text);
  }
  EXPECT_TRUE(verify(checkpoint()).has_value());
}

TEST_F(Damage, FileThatIsTooShortTooLongOrMissingIsFoundAtOnce) {
  for (const fs::path& path : files()) {
    const std::string text = contents(path);
    for (const std::size_t bytes : {std::size_t{0}, text.size() / 2, text.size() - 1}) {
      write(path, text.substr(0, bytes));
      const auto reader = Reader::open(checkpoint());
      ASSERT_FALSE(reader.has_value()) << path << " of " << bytes;
      EXPECT_EQ(reader.error().code, ErrorCode::kCorrupt);
      EXPECT_THAT(reader.error().message, HasSubstr(path.string()));
    }
    write(path, text + " ");
    EXPECT_EQ(Reader::open(checkpoint()).error().code, ErrorCode::kCorrupt) << path;
    fs::remove(path);
    EXPECT_EQ(Reader::open(checkpoint()).error().message, path.string() + ": is missing");
    fs::create_directory(path);
    EXPECT_FALSE(Reader::open(checkpoint()).has_value()) << path;
    fs::remove(path);
    write(path, text);
  }
  EXPECT_TRUE(verify(checkpoint()).has_value());
}

TEST_F(Damage, DamagedNewestNamesChecksumsAndTheNewestWholeOne) {
  EXPECT_EQ(*find_latest(folder_.path()), checkpoint(3));
  const auto spoil = [&](std::uint64_t step) {
    std::string text = contents(checkpoint(step) / kModelFile);
    text.back() = static_cast<char>(text.back() ^ 1);
    write(checkpoint(step) / kModelFile, text);
  };
  spoil(3);
  const auto found = find_latest(folder_.path());
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(found.error().message,
              testing::MatchesRegex("the newest checkpoint is damaged: .*/step-0000000003/"
                                    "model.safetensors: checksum \\(CRC32C\\) expected [0-9a-f]+, "
                                    "found [0-9a-f]+; the newest whole one is step-0000000002: "
                                    "--resume=2"));
  spoil(2);
  EXPECT_THAT(find_latest(folder_.path()).error().message, HasSubstr("--resume=1"));
  spoil(1);
  EXPECT_THAT(find_latest(folder_.path()).error().message, HasSubstr("no other one is whole"));
}

TEST_F(Damage, FolderWithoutCheckpointsIsNoDamage) {
  EXPECT_EQ(find_latest(folder_.path() / "nowhere").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(Reader::open(folder_.path() / "step-0000000009").error().code, ErrorCode::kInvalid);
}

TEST_F(Damage, CheckpointUnderTheNameOfAnotherStepIsRefused) {
  fs::rename(checkpoint(3), checkpoint(4));
  EXPECT_THAT(Reader::open(checkpoint(4)).error().message, HasSubstr("is of step 3"));
  // A folder name of another form implies no step.
  fs::rename(checkpoint(4), folder_.path() / "best");
  expect_content(folder_.path() / "best", 3, 2);
}

}  // namespace
}  // namespace tally::checkpoint
