#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::data {

// Sides of images that are read; a larger one is refused before memory is taken for it.
inline constexpr int kMaxImageSide = 16384;
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;

struct ImageSize {
  int channels = 0;
  int height = 0;
  int width = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// kCorrupt, with the file's name, unless the size is one that is read here.
Result<void> check_size(const ImageSize& size, const std::string& name, std::uint64_t offset);

// A decoded image: a byte per channel, channels of a pixel beside each other, rows from the top.
struct Image {
  ImageSize size;
  std::vector<std::uint8_t> pixels;
};

// Pixels in memory, however they lie: strides are in bytes.
struct ImageView {
  ImageSize size;
  const std::uint8_t* pixels = nullptr;
  std::ptrdiff_t channel_stride = 0;
  std::ptrdiff_t row_stride = 0;
  std::ptrdiff_t pixel_stride = 0;
};
ImageView view_of(const Image& image);
// Channel after channel, as CIFAR has them.
ImageView planar_view(const ImageSize& size, const std::uint8_t* pixels);

// A part of an image, in pixels of it.
struct Box {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

// The largest box in the middle of an image that has the proportions of `wanted`.
Box centre_box(const ImageSize& image, const ImageSize& wanted);

// What turns a byte into a number of the model: (byte / 255 - mean) / deviation, per channel.
struct PixelScale {
  std::vector<float> mean;
  std::vector<float> deviation;
};
// Leaves values between 0 and 1.
PixelScale plain_scale(int channels);
// For `channels`, from one with another number: grey from the average, colours alike.
PixelScale fit_scale(const PixelScale& scale, int channels);

// The part `box` of an image at the size and with the channels of `wanted`, scaled, channel after
// channel, mirrored if `flip`. Bilinear; when shrinking, over all pixels that a result covers. Grey
// from colours by their luminance. `scale` is for the channels of `wanted`; `out` has as many
// values as `wanted`.
void resample(const ImageView& image, const Box& box, const ImageSize& wanted,
              const PixelScale& scale, bool flip, std::span<float> out);

}  // namespace tally::data
