#include "data/open_like.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/image_folder.h"
#include "data/keyed_open.h"
#include "data/open.h"
#include "data/test_files.h"
#include "data/test_images.h"

namespace tally::data {
namespace {

// Opens the test part as the training does, and for the model that was trained on the training
// part: every sample must be equal.
void expect_equal_samples(const std::string& path, const OpenOptions& options = {}) {
  OpenOptions test_options = options;
  test_options.train = false;
  const auto train = open_dataset(path, "", options);
  const auto test = open_dataset(path, "", test_options);
  ASSERT_TRUE(train && test) << (train ? test : train).error().message;
  const Preprocessing like = (*train)->preprocessing();
  const auto location = locate_like(path, "", like);
  ASSERT_TRUE(location) << location.error().message;
  const auto opened = open_like(*location, like, Targets::kNeeded);
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_EQ((*opened)->size(), (*test)->size());
  EXPECT_EQ((*opened)->classes(), (*test)->classes());
  EXPECT_EQ((*opened)->shape().input, (*test)->shape().input);
  for (std::uint64_t i = 0; i < (*test)->size(); ++i) {
    EXPECT_EQ(sample_of(**opened, i).input, sample_of(**test, i).input) << "sample " << i;
    EXPECT_EQ(sample_of(**opened, i).target, sample_of(**test, i).target) << "sample " << i;
  }
}

Preprocessing learned_from(const std::filesystem::path& path, const OpenOptions& options = {}) {
  const auto train = open_dataset(path.string(), "", options);
  EXPECT_TRUE(train) << train.error().message;
  return (*train)->preprocessing();
}

Result<std::unique_ptr<Dataset>> opened_like(const std::filesystem::path& path,
                                             const Preprocessing& like, Targets targets) {
  TALLY_TRY(const Location location, locate_like(path.string(), "", like));
  return open_like(location, like, targets);
}

constexpr const char* kHouses =
    "rooms,place,price\n3,city,10\n5,land,20\n4,city,\"15\"\n,coast,30\n6,land,25\n";

TEST(OpenLike, TestPartOfATableIsTheSame) {
  const TestFolder folder;
  folder.write("train.csv", kHouses);
  folder.write("test.csv", "rooms,place,price\n7,coast,11\n,city,12\n2,moon,13\n");
  expect_equal_samples(folder.path().string());
}

TEST(OpenLike, TestPartOfClassesIsTheSame) {
  const TestFolder folder;
  folder.write("train.csv", "a,b,kind\n1,2,x\n3,4,y\n5,7,z\n");
  folder.write("test.csv", "a,b,kind\n2,2,z\n3,9,x\n");
  expect_equal_samples(folder.path().string());
}

TEST(OpenLike, TestPartOfIdxImagesIsTheSame) {
  const TestFolder folder;
  std::string pixels;
  for (int i = 0; i < 6 * 16; ++i) pixels += static_cast<char>(i * 7);
  folder.write("train-images-idx3-ubyte", big_endian({0x803, 6, 4, 4}) + pixels);
  folder.write("train-labels-idx1-ubyte", big_endian({0x801, 6}) + std::string("\0\1\2\0\1\2", 6));
  folder.write("t10k-images-idx3-ubyte", big_endian({0x803, 3, 4, 4}) + pixels.substr(40, 48));
  folder.write("t10k-labels-idx1-ubyte", big_endian({0x801, 3}) + std::string("\2\1\0", 3));
  expect_equal_samples(folder.path().string());
}

TEST(OpenLike, TestPartOfAnImageFolderIsTheSame) {
  const TestFolder folder;
  for (const char* const name : {"train/a/1.png", "train/b/2.png", "val/a/3.png", "val/b/4.png"})
    folder.write(name, png_of(gradient_image({3, 9, 12})));
  expect_equal_samples(folder.path().string(), {.image = {3, 8, 8}});
}

TEST(OpenLike, TestPartOfLibsvmRowsIsTheSame) {
  const TestFolder folder;
  folder.write("a9a", "-1 1:0.5 4:1\n1 2:1\n");
  folder.write("a9a.t", "1 4:2\n-1 3:1\n");
  expect_equal_samples((folder.path() / "a9a").string());
}

TEST(OpenLike, TextHasTheAlphabetOfTheModel) {
  const TestFolder folder;
  const auto book = folder.write("book.txt", "abcabcabdé abcabc");
  const Preprocessing like = learned_from(book, {.context = 4});
  const auto other = folder.write("other.txt", "éddcb");
  const auto text = opened_like(other, like, Targets::kNeeded);
  ASSERT_TRUE(text) << text.error().message;
  // The alphabet is " abcdé".
  EXPECT_EQ(sample_of(**text, 0).input, (std::vector<float>{5, 4, 4, 3}));
  EXPECT_EQ(sample_of(**text, 0).target, (std::vector<float>{4, 4, 3, 2}));
  const auto strange = opened_like(folder.write("x.txt", "abcxabc"), like, Targets::kNeeded);
  ASSERT_FALSE(strange);
  EXPECT_NE(strange.error().message.find("x.txt: offset 3: expected one of the 6 characters"),
            std::string::npos)
      << strange.error().message;
}

TEST(OpenLike, RowsOfKeysHaveTheSlotsOfTheModel) {
  const TestFolder folder;
  const auto train = folder.write("a", "-1 1:1 4:1 5:1\n1 2:1\n1 2:2\n");
  const auto location = locate_keyed(train.string(), "");
  ASSERT_TRUE(location) << location.error().message;
  const Preprocessing like = (*open_keyed(*location, {.validation = 0}))->preprocessing();
  const auto test = opened_like(folder.write("b", "1 9:1\n-1 1:1\n"), like, Targets::kNeeded);
  ASSERT_TRUE(test) << test.error().message;
  EXPECT_EQ((*test)->shape().input, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(sample_of(**test, 0).target, std::vector<float>{1});
  const auto long_row =
      opened_like(folder.write("c", "1 1:1 2:1 3:1 4:1\n"), like, Targets::kNeeded);
  ASSERT_FALSE(long_row);
  EXPECT_NE(long_row.error().message.find("a row of 4 entries"), std::string::npos);
}

TEST(OpenLike, ColumnsAreFoundByNameInAnyOrderAndBesideOthers) {
  const TestFolder folder;
  const Preprocessing like =
      learned_from(folder.write("train.csv", kHouses), {.read = {.validation = 0}});
  const auto plain =
      opened_like(folder.write("p.csv", "rooms,place,price\n3,city,10\n"), like, Targets::kIgnored);
  const auto mixed =
      opened_like(folder.write("m.csv", "id,place,rooms\n77,city,3\n"), like, Targets::kIgnored);
  const auto unnamed = opened_like(folder.write("u.csv", "3,city\n"), like, Targets::kIgnored);
  for (const auto* const set : {&plain, &mixed, &unnamed})
    ASSERT_TRUE(*set) << set->error().message;
  EXPECT_EQ(sample_of(**plain, 0).input, sample_of(**mixed, 0).input);
  EXPECT_EQ(sample_of(**plain, 0).input, sample_of(**unnamed, 0).input);
}

// The usual file to predict has the target column without values.
TEST(OpenLike, TargetsThatAreNotNeededMayBeEmptyOrUnknown) {
  const TestFolder folder;
  const Preprocessing like = learned_from(folder.write("train.csv", kHouses));
  for (const char* const target : {"", "?", "cheap"}) {
    const std::string row = fmt::format("3,city,{}\n", target);
    for (const std::string& text : {"rooms,place,price\n" + row, row}) {
      const auto file = folder.write("x.csv", text);
      const auto ignored = opened_like(file, like, Targets::kIgnored);
      ASSERT_TRUE(ignored) << ignored.error().message;
      EXPECT_EQ((*ignored)->size(), 1U);
      EXPECT_FALSE(opened_like(file, like, Targets::kNeeded)) << text;
    }
  }
}

TEST(OpenLike, TwoColumnsOfOneNameAreRefused) {
  const TestFolder folder;
  const auto twice = open_dataset(folder.write("t.csv", "a,b,a\n1,2,3\n4,5,6\n").string(), "", {});
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("columns 1 and 3 have the same name 'a'"), std::string::npos)
      << twice.error().message;
  const Preprocessing like = learned_from(folder.write("train.csv", kHouses));
  const auto file = folder.write("x.csv", "rooms,place,rooms\n3,city,5\n");
  const auto opened = opened_like(file, like, Targets::kIgnored);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("two columns have the name 'rooms'"), std::string::npos);
}

TEST(OpenLike, MissingColumnsAreNamed) {
  const TestFolder folder;
  const Preprocessing like =
      learned_from(folder.write("train.csv", kHouses), {.read = {.validation = 0}});
  const auto file = folder.write("x.csv", "rooms,where\n3,city\n");
  const auto ignored = opened_like(file, like, Targets::kIgnored);
  ASSERT_FALSE(ignored);
  EXPECT_NE(ignored.error().message.find("the model needs the column place"), std::string::npos)
      << ignored.error().message;
  const auto needed = opened_like(file, like, Targets::kNeeded);
  ASSERT_FALSE(needed);
  EXPECT_NE(needed.error().message.find("columns place, price"), std::string::npos)
      << needed.error().message;
  const auto others =
      opened_like(folder.write("y.csv", "a,b,c,d\n1,x,2,3\n"), like, Targets::kIgnored);
  ASSERT_FALSE(others);
  EXPECT_NE(others.error().message.find(
                "the model needs the columns rooms, place, and the first row has a, b, c, d"),
            std::string::npos)
      << others.error().message;
}

// A file of pixels and the same image as a PNG give the same input.
TEST(OpenLike, ImageFilesAreScaledLikeTheTrainingImages) {
  const TestFolder folder;
  const Image image = gradient_image({1, 4, 4});
  const std::string pixels(image.pixels.begin(), image.pixels.end());
  folder.write("train-images-idx3-ubyte", big_endian({0x803, 2, 4, 4}) + pixels + pixels);
  folder.write("train-labels-idx1-ubyte", big_endian({0x801, 2}) + std::string("\0\1", 2));
  const OpenOptions all{.read = {.validation = 0}};
  const auto train = open_dataset(folder.path().string(), "", all);
  ASSERT_TRUE(train) << train.error().message;
  const auto png = folder.write("one.png", png_of(image));
  const auto opened = open_images_like({png}, (*train)->preprocessing());
  ASSERT_TRUE(opened) << opened.error().message;
  const auto expected = sample_of(**train, 0).input;
  const auto found = sample_of(**opened, 0).input;
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

TEST(OpenLike, DataOfAnotherKindIsRefusedWithTheKindThatTheModelTakes) {
  const TestFolder folder;
  const Preprocessing like =
      learned_from(folder.write("train.csv", kHouses), {.read = {.validation = 0}});
  const auto text = opened_like(folder.write("x.txt", "hello"), like, Targets::kIgnored);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("is of the kind text, and the model takes tables (.csv)"),
            std::string::npos)
      << text.error().message;
  const auto binary =
      opened_like(folder.write("x.bmp", std::string("BM\0\1", 4)), like, Targets::kIgnored);
  ASSERT_FALSE(binary);
  EXPECT_NE(binary.error().message.find("x.bmp has no supported format: expected tables (.csv)"),
            std::string::npos)
      << binary.error().message;
  const auto image = open_images_like({"a.png"}, like);
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().message.find("a.png is an image, and the model takes tables"),
            std::string::npos);
}

}  // namespace
}  // namespace tally::data
