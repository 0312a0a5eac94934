#include "data/image.h"

#include <numeric>

#include <gtest/gtest.h>

#include "data/image_folder.h"
#include "data/test_images.h"

namespace tally::data {
namespace {

std::vector<float> resampled(const Image& image, const Box& box, const ImageSize& wanted,
                             bool flip = false) {
  std::vector<float> out(static_cast<std::size_t>(wanted.channels * wanted.height * wanted.width));
  resample(view_of(image), box, wanted, plain_scale(wanted.channels), flip, out);
  for (float& value : out) value *= 255.0F;
  return out;
}

Box whole(const Image& image) {
  return {0, 0, double(image.size.width), double(image.size.height)};
}

TEST(Resample, SameSizeIsTheImage) {
  const Image image = gradient_image({3, 5, 7});
  const auto out = resampled(image, whole(image), image.size);
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 5; ++y)
      for (int x = 0; x < 7; ++x)
        EXPECT_NEAR(out[static_cast<std::size_t>((c * 5 + y) * 7 + x)],
                    image.pixels[static_cast<std::size_t>((y * 7 + x) * 3 + c)], 1e-3);
}

TEST(Resample, PlainStaysPlainAtEverySize) {
  const Image image = plain_image({1, 9, 13}, 77);
  for (const int height : {1, 2, 5, 9, 20})
    for (const int width : {1, 3, 13, 40})
      for (const float value : resampled(image, whole(image), {1, height, width}))
        EXPECT_NEAR(value, 77, 1e-3);
}

// Each output pixel covers 2 x 2 pixels and averages 4 x 4 pixels with triangle weights. For a
// linear slope this average is the value of the slope at the centre.
TEST(Resample, SlopeStaysASlopeAwayFromTheEdge) {
  Image image{.size = {1, 1, 64}, .pixels = {}};
  for (int x = 0; x < 64; ++x) image.pixels.push_back(static_cast<std::uint8_t>(3 * x));
  for (const int width : {16, 32, 128}) {
    const auto out = resampled(image, whole(image), {1, 1, width});
    const double scale = 64.0 / width;
    for (int x = width / 4; x < 3 * width / 4; ++x)
      EXPECT_NEAR(out[static_cast<std::size_t>(x)], 3 * ((x + 0.5) * scale - 0.5), 0.01) << width;
  }
}

TEST(Resample, ShrinkingCountsEveryPixel) {
  Image image = plain_image({1, 1, 64}, 0);
  image.pixels[21] = 255;  // plain interpolation would skip this pixel
  const auto out = resampled(image, whole(image), {1, 1, 8});
  EXPECT_NEAR(std::accumulate(out.begin(), out.end(), 0.0F), 255.0F / 8, 0.5);
}

TEST(Resample, FlipMirrors) {
  const Image image = gradient_image({3, 4, 6});
  const auto plain = resampled(image, whole(image), image.size);
  const auto flipped = resampled(image, whole(image), image.size, true);
  for (std::size_t row = 0; row < 12; ++row)
    for (std::size_t x = 0; x < 6; ++x) EXPECT_EQ(flipped[row * 6 + x], plain[row * 6 + 5 - x]);
}

TEST(Resample, GreyBecomesThreeChannelsAndColoursGrey) {
  const Image grey = gradient_image({1, 3, 3});
  const auto colours = resampled(grey, whole(grey), {3, 3, 3});
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(colours[i], colours[9 + i]);
    EXPECT_EQ(colours[i], colours[18 + i]);
  }
  Image red = plain_image({3, 2, 2}, 0);
  for (std::size_t i = 0; i < 4; ++i) red.pixels[3 * i] = 200;
  for (const float value : resampled(red, whole(red), {1, 2, 2}))
    EXPECT_NEAR(value, 0.299 * 200, 0.01);
}

TEST(Resample, ScaleIsPerChannel) {
  const Image image = plain_image({3, 2, 2}, 51);
  std::vector<float> out(12);
  resample(view_of(image), whole(image), image.size, {{0.1F, 0.2F, 0.3F}, {0.5F, 1.0F, 2.0F}},
           false, out);
  EXPECT_NEAR(out[0], 0.2, 1e-5);
  EXPECT_NEAR(out[4], 0.0, 1e-5);
  EXPECT_NEAR(out[8], -0.05, 1e-5);
}

TEST(CentreBox, IsTheLargestInTheMiddle) {
  const Box wide = centre_box({3, 100, 300}, {3, 10, 10});
  EXPECT_DOUBLE_EQ(wide.left, 100);
  EXPECT_DOUBLE_EQ(wide.top, 0);
  EXPECT_DOUBLE_EQ(wide.width, 100);
  EXPECT_DOUBLE_EQ(wide.height, 100);
  const Box high = centre_box({3, 300, 100}, {3, 10, 20});
  EXPECT_DOUBLE_EQ(high.width, 100);
  EXPECT_DOUBLE_EQ(high.height, 50);
  EXPECT_DOUBLE_EQ(high.top, 125);
}

TEST(RandomBox, StaysInsideAndHasAQuarterOrMore) {
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) {
    const ImageSize image{3, 20 + static_cast<int>(rng.below(300)),
                          20 + static_cast<int>(rng.below(300))};
    const Box box = random_box(image, {3, 32, 32}, rng);
    EXPECT_GE(box.left, 0);
    EXPECT_GE(box.top, 0);
    EXPECT_LE(box.left + box.width, image.width + 1e-9);
    EXPECT_LE(box.top + box.height, image.height + 1e-9);
    // A narrow image has no box of a quarter of its area with such an aspect ratio; random_box()
    // then returns the centre.
    const Box middle = centre_box(image, {3, 32, 32});
    EXPECT_GE(box.width * box.height,
              std::min(0.25 * image.width * image.height, middle.width * middle.height) - 1e-6);
  }
}

TEST(CheckSize, BoundsHold) {
  EXPECT_TRUE(check_size({3, 1, kMaxImageSide}, "f", 0).has_value());
  EXPECT_FALSE(check_size({3, 1, kMaxImageSide + 1}, "f", 0).has_value());
  EXPECT_FALSE(check_size({3, kMaxImageSide, kMaxImageSide}, "f", 0).has_value());
  EXPECT_FALSE(check_size({2, 5, 5}, "f", 0).has_value());
  EXPECT_FALSE(check_size({1, 0, 5}, "f", 0).has_value());
}

}  // namespace
}  // namespace tally::data
