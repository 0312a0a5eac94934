#include "data/image_folder.h"

#include <gtest/gtest.h>

#include "data/test_files.h"
#include "data/test_images.h"

namespace tally::data {
namespace {

// Two classes, three images, and files that are not images.
void fill(const TestFolder& folder, const std::string& below = "") {
  folder.write(below + "tulip/b.PNG", png_of(plain_image({3, 20, 30}, 100)));
  folder.write(below + "daisy/2.jpg", jpeg_of(plain_image({3, 40, 20}, 50)));
  folder.write(below + "daisy/1.jpeg", jpeg_of(plain_image({1, 16, 16}, 200)));
  folder.write(below + "daisy/notes.txt", "none");
  folder.write(below + "daisy/.hidden.png", "none");
  folder.write(below + "ATTRIBUTION.txt", "none");
}

TEST(ImageFolder, ClassesAreFoldersInTheOrderOfTheirNames) {
  const TestFolder folder;
  fill(folder);
  const auto dataset =
      open_image_folder(folder.path(), {.image = ImageSize{3, 8, 8}, .normalise = false});
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message;
  EXPECT_EQ((*dataset)->size(), 3U);
  EXPECT_EQ((*dataset)->classes(), (std::vector<std::string>{"daisy", "tulip"}));
  EXPECT_EQ((*dataset)->shape().input, (std::vector<std::int64_t>{3, 8, 8}));
  const float expected[3][2] = {{200, 0}, {50, 0}, {100, 1}};
  for (std::uint64_t i = 0; i < 3; ++i) {
    const Sample sample = sample_of(**dataset, i);
    EXPECT_EQ(sample.input.size(), 192U);
    for (const float value : sample.input) EXPECT_NEAR(value * 255, expected[i][0], 2);
    EXPECT_EQ(sample.target, std::vector<float>{expected[i][1]});
  }
}

TEST(ImageFolder, WithoutAWishTheFirstImageDecides) {
  const TestFolder folder;
  fill(folder);
  const auto dataset = open_image_folder(folder.path(), {});
  ASSERT_TRUE(dataset.has_value());
  EXPECT_EQ((*dataset)->shape().input, (std::vector<std::int64_t>{1, 16, 16}));
}

TEST(ImageFolder, LargeFirstImageIsReduced) {
  const TestFolder folder;
  folder.write("a/1.png", png_of(plain_image({1, 1500, 3000}, 9)));
  const auto images = open_image_folder(folder.path(), {});
  ASSERT_TRUE(images.has_value()) << images.error().message;
  EXPECT_EQ((*images)->shape().input, (std::vector<std::int64_t>{1, 512, 1024}));
}

TEST(ImageFolder, AugmentationIsByTheSeedAndCropsAndFlips) {
  const TestFolder folder;
  folder.write("a/1.png", png_of(gradient_image({3, 32, 48})));
  const auto dataset =
      open_image_folder(folder.path(), {.image = ImageSize{3, 16, 16}, .augment = true});
  ASSERT_TRUE(dataset.has_value());
  EXPECT_EQ(sample_of(**dataset, 0, 5).input, sample_of(**dataset, 0, 5).input);
  EXPECT_NE(sample_of(**dataset, 0, 5).input, sample_of(**dataset, 0, 6).input);
  int flipped = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Sample sample = sample_of(**dataset, 0, seed);
    flipped += sample.input[0] > sample.input[15] ? 1 : 0;  // red increases to the right
  }
  EXPECT_NEAR(flipped, 50, 20);
}

TEST(ImageFolder, BadImageIsNamedWhenItIsRead) {
  const TestFolder folder;
  folder.write("a/1.png", png_of(plain_image({3, 8, 8}, 1)));
  const auto text = folder.write("a/2.jpg", "no image at all");
  const auto cut = folder.write("a/3.jpg", jpeg_of(plain_image({3, 64, 64}, 9)).substr(0, 400));
  const auto empty = folder.write("a/4.png", "");
  const auto dataset = open_image_folder(folder.path(), {});
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message;
  std::vector<std::byte> input(input_bytes((*dataset)->shape()));
  std::vector<std::byte> target(8);
  Rng rng(1);
  EXPECT_TRUE((*dataset)->read(0, rng, input, target).has_value());
  const std::filesystem::path paths[] = {text, cut, empty};
  for (std::uint64_t i = 1; i < 4; ++i) {
    const auto result = (*dataset)->read(i, rng, input, target);
    ASSERT_FALSE(result.has_value()) << i;
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(result.error().message.rfind(paths[i - 1].string() + ": offset ", 0), 0U)
        << result.error().message;
  }
}

TEST(ImageFolder, EmptyAndUnknownClassesAreRefused) {
  const TestFolder folder;
  fill(folder);
  std::filesystem::create_directory(folder.path() / "rose");
  const auto empty = open_image_folder(folder.path(), {});
  ASSERT_FALSE(empty.has_value());
  EXPECT_NE(empty.error().message.find("no .jpg, .jpeg or .png in the class folder rose"),
            std::string::npos);
  const auto unknown = open_image_folder(folder.path(), {.classes = {"daisy"}});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(open_image_folder(folder.path() / "nowhere", {}).has_value());
}

TEST(ImageFolder, PartsAreFound) {
  const TestFolder folder;
  EXPECT_FALSE(find_image_folders(folder.path()).has_value());
  fill(folder, "plain/");
  const auto plain = find_image_folders(folder.path() / "plain");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->train, folder.path() / "plain");
  EXPECT_FALSE(plain->test.has_value());
  fill(folder, "parts/train/");
  fill(folder, "parts/val/");
  const auto parts = find_image_folders(folder.path() / "parts");
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->train, folder.path() / "parts/train");
  EXPECT_EQ(*parts->test, folder.path() / "parts/val");
}

}  // namespace
}  // namespace tally::data
