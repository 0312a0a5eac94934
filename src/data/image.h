#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::data {

// Limits of images; a larger image is refused before memory is allocated for it.
inline constexpr int kMaxImageSide = 16384;
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;

struct ImageSize {
  int channels = 0;
  int height = 0;
  int width = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// kCorrupt, with the file's name, unless the size is within the limits and has 1 or 3 channels;
// kExhausted if the decoded image would take more than an eighth of the usable memory.
Result<void> check_size(const ImageSize& size, const std::string& name, std::uint64_t offset);

// A decoded image: one byte per channel, channels interleaved, rows from the top.
struct Image {
  ImageSize size;
  std::vector<std::uint8_t> pixels;
};

// Pixels in memory in any layout; strides are in bytes.
struct ImageView {
  ImageSize size;
  const std::uint8_t* pixels = nullptr;
  std::ptrdiff_t channel_stride = 0;
  std::ptrdiff_t row_stride = 0;
  std::ptrdiff_t pixel_stride = 0;
};
ImageView view_of(const Image& image);
// A planar layout (one channel after the other), as in CIFAR.
ImageView planar_view(const ImageSize& size, const std::uint8_t* pixels);

// A part of an image, in pixels.
struct Box {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

// The largest centred box with the aspect ratio of `wanted`.
Box centre_box(const ImageSize& image, const ImageSize& wanted);

// Converts bytes to model inputs: (byte / 255 - mean) / deviation, per channel.
struct PixelScale {
  std::vector<float> mean;
  std::vector<float> deviation;
};
// Maps bytes to values from 0 to 1.
PixelScale plain_scale(int channels);
// Adapts a scale to another number of channels: every channel gets the average of all.
PixelScale fit_scale(const PixelScale& scale, int channels);

// Resamples the part `box` of an image to the size and channels of `wanted`, applies `scale`, and
// mirrors if `flip`. The output is planar. The filter is bilinear; when shrinking, it covers all
// source pixels of an output pixel. Grey is the luminance of the colours. `scale` has the channels
// of `wanted`; `out` has one value per channel and pixel of `wanted`.
void resample(const ImageView& image, const Box& box, const ImageSize& wanted,
              const PixelScale& scale, bool flip, std::span<float> out);

}  // namespace tally::data
