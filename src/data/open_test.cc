#include "data/open.h"

#include <set>

#include <gtest/gtest.h>

#include "data/pixel_files.h"
#include "data/test_files.h"
#include "data/test_images.h"

namespace tally::data {
namespace {

std::string images_of(std::uint32_t count) {
  std::string text = big_endian({0x803, count, 4, 4});
  for (std::uint32_t i = 0; i < count * 16; ++i) text += static_cast<char>(i * 7);
  return text;
}

std::string labels_of(std::uint32_t count, std::uint32_t classes) {
  std::string text = big_endian({0x801, count});
  for (std::uint32_t i = 0; i < count; ++i) text += static_cast<char>(i % classes);
  return text;
}

void write_idx(const TestFolder& folder, const std::string& below, std::uint32_t test_classes) {
  folder.write(below + "train-images-idx3-ubyte", images_of(20));
  folder.write(below + "train-labels-idx1-ubyte", labels_of(20, 3));
  folder.write_gzip(below + "t10k-images-idx3-ubyte.gz", images_of(5));
  folder.write_gzip(below + "t10k-labels-idx1-ubyte.gz", labels_of(5, test_classes));
}

TEST(Open, IdxFolderHasItsParts) {
  const TestFolder folder;
  write_idx(folder, "d/", 3);
  const std::string path = (folder.path() / "d").string();
  const auto train = open_dataset(path, "", {});
  const auto test = open_dataset(path, "", {.train = false});
  ASSERT_TRUE(train.has_value()) << train.error().message;
  ASSERT_TRUE(test.has_value()) << test.error().message;
  EXPECT_EQ((*train)->size(), 20U);
  EXPECT_EQ((*test)->size(), 5U);
  EXPECT_EQ((*test)->classes(), (std::vector<std::string>{"0", "1", "2"}));
  // The first images of both parts have equal bytes, so one scale for both parts gives equal
  // values.
  EXPECT_EQ(sample_of(**train, 0).input, sample_of(**test, 0).input);
  // The path of a file works like the path of its folder.
  EXPECT_EQ((*open_dataset(path + "/train-images-idx3-ubyte", "",
                           {.train = false, .read = {.validation = 0.5}}))
                ->size(),
            10U);
}

// So many workers that the share of one is less than any of these files.
TEST(Open, EveryKindCountsTheWorkersThatShareTheMemory) {
  const TestFolder folder;
  write_idx(folder, "d/", 3);
  folder.write("t.csv", "a,b,y\n1,2,3\n2,3,4\n");
  folder.write("t.libsvm", "1 1:2\n-1 1:3\n");
  folder.write("t.txt", std::string(1000, 'a'));
  folder.write("c.bin", std::string(kCifarRecordBytes, '\1'));
  for (const char* const name : {"d", "t.csv", "t.libsvm", "t.txt", "c.bin"}) {
    const auto opened = open_dataset((folder.path() / name).string(), "",
                                     {.context = 5, .read = {.readers = 2000000000}});
    ASSERT_FALSE(opened.has_value()) << name;
    EXPECT_EQ(opened.error().code, ErrorCode::kExhausted) << opened.error().message;
  }
}

TEST(Open, LabelThatTheTrainingPartDoesNotHaveIsCorrupt) {
  const TestFolder folder;
  write_idx(folder, "", 4);
  const auto test = open_dataset(folder.path().string(), "", {.train = false});
  ASSERT_FALSE(test.has_value());
  EXPECT_EQ(test.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(test.error().message.find(
                "t10k-labels-idx1-ubyte.gz: offset 11: expected a label below 3, found 3"),
            std::string::npos);
}

TEST(Open, DamagedLabelIsNoClassUnlessTheCatalogSaysSo) {
  const TestFolder folder;
  std::string labels = labels_of(20, 3);
  labels[8 + 5] = 9;
  folder.write("train-images-idx3-ubyte", images_of(20));
  folder.write("train-labels-idx1-ubyte", labels);
  for (const bool train : {true, false}) {
    const auto part = open_dataset(folder.path().string(), "", {.train = train});
    ASSERT_FALSE(part.has_value());
    EXPECT_NE(part.error().message.find("train-labels-idx1-ubyte: offset 13: expected classes "
                                        "numbered from 0 on, each with samples, found the label 9"),
              std::string::npos)
        << part.error().message;
  }
}

TEST(Open, MissingLabelsAreNamed) {
  const TestFolder folder;
  folder.write("train-images-idx3-ubyte", images_of(2));
  const auto train = open_dataset(folder.path().string(), "", {});
  ASSERT_FALSE(train.has_value());
  EXPECT_NE(train.error().message.find("train-labels-idx1-ubyte: No such file"), std::string::npos)
      << train.error().message;
}

TEST(Open, CifarFolderAndFile) {
  const TestFolder folder;
  const std::string record = std::string(1, '\2') + std::string(3072, 'x');
  folder.write("data_batch_1.bin", record + record);
  folder.write("data_batch_2.bin", record);
  folder.write("test_batch.bin", record);
  EXPECT_EQ((*open_dataset(folder.path().string(), "", {}))->size(), 3U);
  const auto test = open_dataset(folder.path().string(), "", {.train = false, .augment = true});
  EXPECT_EQ((*test)->size(), 1U);
  EXPECT_EQ((*test)->classes()[2], "bird");
  EXPECT_EQ((*open_dataset((folder.path() / "data_batch_1.bin").string(), "",
                           {.read = {.validation = 0.0}}))
                ->size(),
            2U);
}

TEST(Open, DataWithoutATestPartAreCutInTwo) {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 50; ++i) text += "1 1:" + std::to_string(i) + "\n";
  const std::string path = folder.write("rows", text).string();
  std::multiset<float> seen;
  for (const bool train : {true, false}) {
    const auto part =
        open_dataset(path, "", {.train = train, .read = {.validation = 0.3}, .seed = 4});
    ASSERT_TRUE(part.has_value()) << part.error().message;
    EXPECT_EQ((*part)->size(), train ? 35U : 15U);
    for (std::uint64_t i = 0; i < (*part)->size(); ++i) seen.insert(sample_of(**part, i).input[0]);
  }
  EXPECT_EQ(seen.size(), 50U);
  EXPECT_EQ(std::set<float>(seen.begin(), seen.end()).size(), 50U);
}

TEST(Open, KindIsFoundByNameAndContent) {
  const TestFolder folder;
  const std::string image = png_of(plain_image({3, 4, 4}, 9));
  folder.write("photos/a/1.png", image);
  folder.write("photos/b/1.png", image);
  folder.write("texts/1.txt", "some text");
  folder.write("tables/train.csv", "a,b\n1,2\n");
  folder.write("tables/test.csv", "a,b\n3,4\n");
  const std::pair<std::filesystem::path, Kind> cases[] = {
      {folder.path() / "photos", Kind::kImageFolder},
      {folder.path() / "texts", Kind::kText},
      {folder.path() / "tables", Kind::kCsv},
      {folder.write("x.csv", "1,2\n"), Kind::kCsv},
      {folder.write_gzip("y.tsv.gz", "1\t2\n"), Kind::kCsv},
      {folder.write("x.txt", "1 1:1\n"), Kind::kText},
      {folder.write("a9a", "1 1:1\n"), Kind::kLibsvm},
      {folder.write_gzip("b9b.gz", "1 1:1\n"), Kind::kLibsvm},
      {folder.write("novel", "Call me Ishmael."), Kind::kText},
      {folder.write("digits-images", images_of(2)), Kind::kIdx},
  };
  for (const auto& [path, kind] : cases) {
    const auto found = locate(path.string(), "");
    ASSERT_TRUE(found.has_value()) << path << found.error().message;
    EXPECT_EQ(found->kind, kind) << path;
  }
  folder.write("a9a.t", "1 1:1\n");
  EXPECT_EQ(locate((folder.path() / "a9a").string(), "")->test,
            std::vector{folder.path() / "a9a.t"});
  EXPECT_EQ(locate((folder.path() / "tables/train.csv").string(), "")->test,
            std::vector{folder.path() / "tables/test.csv"});
}

TEST(Open, WhatIsNothingIsSaidToBeNothing) {
  const TestFolder folder;
  const auto none = open_dataset((folder.path() / "nowhere").string(), "", {});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kSystem);
  EXPECT_NE(none.error().message.find("(names: fashion-mnist, mnist, cifar10"), std::string::npos);
  const auto empty = open_dataset(folder.path().string(), "", {});
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code, ErrorCode::kInvalid);
  EXPECT_FALSE(
      open_dataset(folder.write("binary", std::string("a\0b", 3)).string(), "", {}).has_value());
  EXPECT_FALSE(open_dataset(folder.write("l-idx1", labels_of(2, 2)).string(), "", {}).has_value());
}

TEST(Open, MistypedNamesHaveAGuess) {
  const TestFolder folder;
  folder.write("houses.csv", "1,2\n");
  const auto message_for = [](const std::string& path) {
    return open_dataset(path, "", {}).error().message;
  };
  EXPECT_NE(message_for((folder.path() / "house.csv").string()).find("; did you mean houses.csv?"),
            std::string::npos);
  EXPECT_NE(message_for("fashion-mnits").find("; did you mean fashion-mnist?"), std::string::npos);
}

TEST(Open, ImagesWithoutClassFoldersAreToldApart) {
  const TestFolder folder;
  folder.write("1.png", png_of(plain_image({3, 4, 4}, 9)));
  const auto flat = open_dataset(folder.path().string(), "", {});
  ASSERT_FALSE(flat.has_value());
  EXPECT_NE(flat.error().message.find("has images, but no class folders"), std::string::npos);
}

TEST(Open, KnownNameIsLookedForInTheCache) {
  const TestFolder cache;
  const auto missing = open_dataset("moby-dick", cache.path(), {});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kSystem);
  EXPECT_NE(missing.error().message.find("fetch it with `tally data get moby-dick`"),
            std::string::npos);
  cache.write("moby-dick/moby-dick.txt", std::string(500, 'a') + std::string(500, 'b'));
  const auto text = open_dataset("moby-dick", cache.path(), {.context = 9});
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_EQ((*text)->size(), 99U);
}

TEST(Open, OptionsThatMakeNoSenseAreRefused) {
  const TestFolder folder;
  write_idx(folder, "", 3);
  for (const std::vector<std::int64_t>& image :
       {std::vector<std::int64_t>{28, 28}, {2, 28, 28}, {1, 0, 28}, {1, 28, 5000}})
    EXPECT_EQ(open_dataset(folder.path().string(), "", {.image = image}).error().code,
              ErrorCode::kInvalid);
  EXPECT_EQ(open_dataset(folder.path().string(), "", {.read = {.validation = 1.0}}).error().code,
            ErrorCode::kInvalid);
}

TEST(Catalog, NamesSizesAndChecksumsAreWhole) {
  std::set<std::string_view> names;
  for (const CatalogEntry& entry : catalog()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(find_in_catalog(entry.name), &entry);
    EXPECT_FALSE(entry.files.empty());
    for (const CatalogFile& file : entry.files) {
      EXPECT_EQ(file.sha256.size(), 64U) << file.name;
      EXPECT_EQ(file.sha256.find_first_not_of("0123456789abcdef"), std::string_view::npos);
      EXPECT_GT(file.bytes, 0U);
    }
    EXPECT_EQ(entry.mean.size(), entry.deviation.size());
    EXPECT_EQ(entry.archive.sha256.size(), entry.registry == Registry::kNpm ? 64U : 0U);
  }
  EXPECT_EQ(find_in_catalog("nothing"), nullptr);
}

}  // namespace
}  // namespace tally::data
