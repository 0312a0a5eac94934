// JPEG and PNG: intact images are decoded, and damaged ones give an error with the file's name.
#include <cstdlib>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "data/image_codecs.h"
#include "data/test_files.h"
#include "data/test_images.h"

namespace tally::data {
namespace {

int distance(const Image& a, const Image& b) {
  int most = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i)
    most = std::max(most, std::abs(a.pixels[i] - b.pixels[i]));
  return most;
}

TEST(Png, PixelsComeBack) {
  for (const int channels : {1, 3}) {
    const Image image = gradient_image({channels, 21, 34});
    const std::string file = png_of(image);
    const auto size = png_size(bytes_of(file), "f");
    ASSERT_TRUE(size.has_value()) << size.error().message;
    EXPECT_EQ(*size, image.size);
    const auto decoded = decode_png(bytes_of(file), "f");
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    EXPECT_EQ(decoded->pixels, image.pixels);
  }
}

TEST(Png, CutOffAnywhereIsCorrupt) {
  const std::string file = png_of(gradient_image({3, 9, 9}));
  for (std::size_t length = 0; length < file.size(); ++length) {
    const auto decoded = decode_png(bytes_of(file.substr(0, length)), "f");
    ASSERT_FALSE(decoded.has_value()) << length;
    EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(decoded.error().message.find("f: offset "), std::string::npos);
  }
}

TEST(Png, ChunkWithAWrongChecksumIsNamed) {
  std::string file = png_of(gradient_image({3, 9, 9}));
  const std::size_t data = file.find("IDAT");
  file[data + 8] = static_cast<char>(file[data + 8] ^ 1);
  const auto decoded = decode_png(bytes_of(file), "f");
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().message.rfind(
                "f: offset " + std::to_string(data - 4) + ": expected a chunk with checksum ", 0),
            0U)
      << decoded.error().message;
}

TEST(Png, HugeSizesAreRefusedByTheHeader) {
  std::string file = png_of(gradient_image({3, 9, 9}));
  file.replace(16, 8, big_endian({0x7FFFFFFF, 0x7FFFFFFF}));
  const auto size = png_size(bytes_of(file), "f");
  ASSERT_FALSE(size.has_value());
  EXPECT_EQ(size.error().message.rfind("f: offset 16: expected sides from 1 to 16384", 0), 0U)
      << size.error().message;
}

TEST(Jpeg, PixelsComeBackNearly) {
  for (const int channels : {1, 3}) {
    const Image image = gradient_image({channels, 40, 56});
    const std::string file = jpeg_of(image);
    EXPECT_EQ(*jpeg_size(bytes_of(file), "f"), image.size);
    const auto decoded = decode_jpeg(bytes_of(file), "f", 1);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    EXPECT_EQ(decoded->size, image.size);
    EXPECT_LE(distance(*decoded, image), 12);
  }
}

TEST(Jpeg, ReducedSizesAreRoundedUp) {
  const std::string file = jpeg_of(plain_image({3, 41, 50}, 90));
  for (const int reduction : {2, 4, 8}) {
    const auto decoded = decode_jpeg(bytes_of(file), "f", reduction);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(decoded->size,
              (ImageSize{3, (41 + reduction - 1) / reduction, (50 + reduction - 1) / reduction}));
    for (const std::uint8_t pixel : decoded->pixels) EXPECT_NEAR(pixel, 90, 2);
  }
}

TEST(Jpeg, InksBecomeColours) {
  const auto decoded = decode_jpeg(bytes_of(jpeg_of(plain_image({4, 16, 16}, 200))), "f", 1);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(decoded->size, (ImageSize{3, 16, 16}));
  EXPECT_EQ(decoded->pixels.size(), 16U * 16 * 3);
  for (const std::uint8_t pixel : decoded->pixels) EXPECT_NEAR(pixel, 200 * 200 / 255, 2);
}

// Only the end marker may be missing, because the image is complete without it.
TEST(Jpeg, CutOffAnywhereIsCorrupt) {
  const std::string file = jpeg_of(gradient_image({3, 24, 24}));
  for (std::size_t length = 0; length < file.size() - 2; ++length) {
    const auto decoded = decode_jpeg(bytes_of(file.substr(0, length)), "f", 1);
    ASSERT_FALSE(decoded.has_value()) << length << " of " << file.size();
    EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(decoded.error().message.find("expected a whole JPEG image, found "),
              std::string::npos);
  }
}

// Decoding a damaged file ends with pixels or an error, and never crashes.
TEST(Jpeg, DamageIsSurvived) {
  const std::string file = jpeg_of(gradient_image({3, 24, 24}));
  Rng rng(7);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = file;
    for (std::uint64_t changes = 1 + rng.below(4); changes > 0; --changes)
      damaged[rng.below(damaged.size())] = static_cast<char>(rng.next());
    const auto decoded = decode_jpeg(bytes_of(damaged), "f", 1 << rng.below(4));
    refused += decoded.has_value() ? 0 : 1;
    if (decoded.has_value()) {
      const ImageSize& size = decoded->size;
      EXPECT_EQ(decoded->pixels.size(), static_cast<std::size_t>(size.channels) *
                                            static_cast<std::size_t>(size.height) *
                                            static_cast<std::size_t>(size.width));
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace tally::data
