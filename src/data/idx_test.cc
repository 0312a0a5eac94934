#include "data/pixel_files.h"

#include <cstring>

#include <gtest/gtest.h>

#include "data/test_files.h"

namespace tally::data {
namespace {

std::string images_of(std::uint32_t count, std::uint32_t height, std::uint32_t width) {
  std::string text = big_endian({0x803, count, height, width});
  for (std::uint32_t i = 0; i < count * height * width; ++i) text += static_cast<char>(i % 251);
  return text;
}

std::string labels_of(std::uint32_t count) {
  std::string text = big_endian({0x801, count});
  for (std::uint32_t i = 0; i < count; ++i) text += static_cast<char>(i % 10);
  return text;
}

Result<PixelSamples> parse(const std::string& images, const std::string& labels,
                           std::optional<int> classes = std::nullopt) {
  return parse_idx({bytes_of(images), "i"}, {bytes_of(labels), "l"}, classes);
}

TEST(Idx, ImagesAndLabelsAreRead) {
  const auto samples = parse(images_of(3, 4, 5), labels_of(3), 10);
  ASSERT_TRUE(samples.has_value()) << samples.error().message;
  EXPECT_EQ(samples->size, (ImageSize{1, 4, 5}));
  EXPECT_EQ(samples->labels, (std::vector<std::uint8_t>{0, 1, 2}));
  EXPECT_EQ(samples->pixels.size(), 60U);
  EXPECT_EQ(std::to_integer<int>(samples->pixels[59]), 59);
}

TEST(Idx, FilesMayBePacked) {
  const TestFolder folder;
  folder.write("i", images_of(3, 4, 5));
  folder.write_gzip("i.gz", images_of(3, 4, 5));
  folder.write_gzip("l.gz", labels_of(3));
  const auto packed = read_idx(folder.path() / "i.gz", folder.path() / "l.gz", 10);
  const auto plain = read_idx(folder.path() / "i", folder.path() / "l.gz", 10);
  ASSERT_TRUE(packed.has_value()) << packed.error().message;
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(packed->pixels, plain->pixels);
}

struct Bad {
  const char* what;
  std::string images;
  std::string labels;
  const char* message;
};

TEST(Idx, EveryFaultIsNamedWithItsPlace) {
  std::string swapped = images_of(2, 4, 5);
  std::string high = labels_of(2);
  high.back() = 10;
  const Bad cases[] = {
      {"empty", "", labels_of(2),
       "i: offset 0: expected an IDX header of 16 bytes, found the end of the file"},
      {"labels for images", labels_of(20), labels_of(2),
       "i: offset 0: expected 0x00000803, which begins a file of images, found 0x00000801"},
      {"truncated", images_of(2, 4, 5).substr(0, 55), labels_of(2),
       "i: offset 55: expected 56 bytes: a header of 16 and 2 images of 4 x 5, found the end of "
       "the file"},
      {"too long", images_of(2, 4, 5) + "x", labels_of(2),
       "i: offset 56: expected 56 bytes: a header of 16 and 2 images of 4 x 5, found 57 bytes"},
      {"no width", big_endian({0x803, 1, 4, 0}), labels_of(1),
       "i: offset 12: expected a side from 1 to 4096, found 0"},
      {"huge", big_endian({0x803, 0xFFFFFFFF, 4096, 4096}), labels_of(1),
       "i: offset 16: expected 72057594021150736 bytes: a header of 16 and 4294967295 images of "
       "4096 x 4096, "
       "found the end of the file"},
      {"wrong labels", swapped, images_of(1, 1, 1),
       "l: offset 0: expected 0x00000801, which begins a file of labels, found 0x00000803"},
      {"cut labels", swapped, labels_of(2).substr(0, 9),
       "l: offset 9: expected 10 bytes: a header of 8 and 2 labels, found the end of the file"},
      {"fewer labels", swapped, labels_of(1),
       "l: offset 4: expected 2 labels, as i has images, found 1"},
      {"label", swapped, high, "l: offset 9: expected a label below 10, found 10"},
  };
  for (const Bad& bad : cases) {
    const auto result = parse(bad.images, bad.labels, 10);
    ASSERT_FALSE(result.has_value()) << bad.what;
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt) << bad.what;
    EXPECT_EQ(result.error().message, bad.message) << bad.what;
  }
}

TEST(Idx, OneStrangeLabelIsNoClass) {
  std::vector<std::uint8_t> labels;
  for (int i = 0; i < 100; ++i) labels.push_back(static_cast<std::uint8_t>(i % 10));
  EXPECT_EQ(*count_classes(labels, "l"), 10);
  labels[42] = 99;
  EXPECT_EQ(count_classes(labels, "l").error().message,
            "l: offset 50: expected classes numbered from 0 on, each with samples, found the label "
            "99, and no label 10 to 98");
  EXPECT_EQ(count_classes({1, 2, 1}, "l").error().message,
            "l: offset 8: expected classes numbered from 0 on, each with samples, found the label "
            "1, and no label 0");
  EXPECT_EQ(count_classes({0, 2, 3, 2}, "l").error().message,
            "l: offset 9: expected classes numbered from 0 on, each with samples, found the label "
            "2, and no label 1");
  std::vector<std::uint8_t> all(256);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(255 - i);
  EXPECT_EQ(*count_classes(all, "l"), 256);
  EXPECT_EQ(*count_classes({}, "l"), 0);
}

TEST(Idx, MissingFileSaysWhatToDo) {
  const auto result = read_idx("/nowhere/images", "/nowhere/labels", 10);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kSystem);
  EXPECT_EQ(result.error().message,
            "cannot read /nowhere/images: No such file or directory: give the path of a file, or a "
            "name that `tally data "
            "list` shows");
}

}  // namespace
}  // namespace tally::data
