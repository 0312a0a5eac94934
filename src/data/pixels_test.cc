#include "data/pixels.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "data/pixel_files.h"
#include "data/test_files.h"

namespace tally::data {
namespace {

PixelSamples some_samples(const ImageSize& size, std::size_t count) {
  PixelSamples samples{.size = size, .pixels = {}, .labels = std::vector<std::uint8_t>(count, 1)};
  const auto bytes = count * static_cast<std::size_t>(size.channels * size.height * size.width);
  for (std::size_t i = 0; i < bytes; ++i)
    samples.pixels.push_back(static_cast<std::byte>(i * 37 % 256));
  return samples;
}

TEST(Pixels, ScaledByMeanAndDeviation) {
  const auto dataset = make_pixel_dataset(some_samples({1, 2, 2}, 3), {"a", "b"},
                                          {.scale = PixelScale{{0.5F}, {0.25F}}});
  const Sample sample = sample_of(*dataset, 2);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(sample.input[i], (double((8 + i) * 37 % 256) / 255 - 0.5) / 0.25, 1e-5);
  EXPECT_EQ(sample.target, std::vector<float>{1});
}

TEST(Pixels, MeasuredScaleBringsMeanZeroAndDeviationOne) {
  PixelSamples samples = some_samples({3, 8, 8}, 20);
  const PixelScale scale = measure_scale(samples);
  const auto dataset = make_pixel_dataset(samples, {"a", "b"}, {.scale = scale});
  for (std::size_t c = 0; c < 3; ++c) {
    double sum = 0;
    double squares = 0;
    for (std::uint64_t i = 0; i < 20; ++i) {
      const Sample sample = sample_of(*dataset, i);
      for (std::size_t p = c * 64; p < (c + 1) * 64; ++p) {
        sum += sample.input[p];
        squares += double(sample.input[p]) * sample.input[p];
      }
    }
    EXPECT_NEAR(sum / 1280, 0, 1e-4);
    EXPECT_NEAR(squares / 1280, 1, 1e-4);
  }
  samples.pixels.assign(samples.pixels.size(), std::byte{9});
  EXPECT_EQ(measure_scale(samples).deviation[0], 1.0F);
}

TEST(Pixels, OtherSizesAndChannelsAreMade) {
  const auto dataset =
      make_pixel_dataset(some_samples({1, 28, 28}, 1), {"a", "b"}, {.image = ImageSize{3, 32, 32}});
  EXPECT_EQ(dataset->shape().input, (std::vector<std::int64_t>{3, 32, 32}));
  const Sample sample = sample_of(*dataset, 0);
  ASSERT_EQ(sample.input.size(), 3U * 1024);
  for (std::size_t i = 0; i < 1024; ++i) EXPECT_EQ(sample.input[i], sample.input[2048 + i]);
}

// Every augmented image equals the image shifted by one of the 25 shifts, flipped or not, and
// filled with black.
TEST(Pixels, MovesAndFlipsAreWhatTheySay) {
  const PixelSamples samples = some_samples({1, 5, 6}, 1);
  const auto dataset = make_pixel_dataset(samples, {"a", "b"}, {.shift = 2, .flip = true});
  std::set<std::vector<float>> possible;
  for (int down = -2; down <= 2; ++down)
    for (int right = -2; right <= 2; ++right)
      for (const bool flip : {false, true}) {
        std::vector<float> moved;
        for (int y = 0; y < 5; ++y) {
          std::vector<float> row;
          for (int x = 0; x < 6; ++x) {
            const int from_y = y - down;
            const int from_x = x - right;
            const bool inside = from_y >= 0 && from_y < 5 && from_x >= 0 && from_x < 6;
            row.push_back(
                inside ? static_cast<float>(std::to_integer<int>(
                             samples.pixels[static_cast<std::size_t>(from_y * 6 + from_x)])) /
                             255.0F
                       : 0.0F);
          }
          if (flip) std::reverse(row.begin(), row.end());
          moved.insert(moved.end(), row.begin(), row.end());
        }
        possible.insert(moved);
      }
  std::set<std::vector<float>> seen;
  for (std::uint64_t seed = 0; seed < 400; ++seed) seen.insert(sample_of(*dataset, 0, seed).input);
  EXPECT_EQ(seen, possible);
}

std::string record(std::uint8_t label, char fill) {
  return std::string(1, static_cast<char>(label)) + std::string(3072, fill);
}

TEST(Cifar, RecordsAreRead) {
  const TestFolder folder;
  const auto a = folder.write("a.bin", record(3, 'a') + record(9, 'b'));
  const auto b = folder.write_gzip("b.bin.gz", record(0, 'c'));
  const auto samples = read_cifar({a, b});
  ASSERT_TRUE(samples.has_value()) << samples.error().message;
  EXPECT_EQ(samples->labels, (std::vector<std::uint8_t>{3, 9, 0}));
  EXPECT_EQ(samples->size, (ImageSize{3, 32, 32}));
  EXPECT_EQ(samples->pixels[3072 + 5], std::byte{'b'});
  EXPECT_EQ(samples->pixels.back(), std::byte{'c'});
}

TEST(Cifar, EveryFaultIsNamedWithItsPlace) {
  const std::pair<std::string, std::string> cases[] = {
      {"",
       "f: offset 0: expected records of 3073 bytes each, at least one, found 0 bytes and the end "
       "of the file"},
      {record(1, 'x') + "abc",
       "f: offset 3073: expected records of 3073 bytes each, at least one, found 3 bytes and the "
       "end of the file"},
      {record(1, 'x') + record(10, 'x'), "f: offset 3073: expected a label below 10, found 10"},
  };
  for (const auto& [content, message] : cases) {
    PixelSamples samples;
    const auto result = parse_cifar(bytes_of(content), "f", samples);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(result.error().message, message);
  }
}

}  // namespace
}  // namespace tally::data
