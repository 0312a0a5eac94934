#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/image.h"
#include "data/input_file.h"

namespace tally::data {

// Small labelled images of one size in memory: one byte per channel, planar, one image after the
// other.
struct PixelSamples {
  ImageSize size;
  Bytes pixels;
  std::vector<std::uint8_t> labels;
};

struct PixelOptions {
  // Wanted channels, height and width; unset: as stored.
  std::optional<ImageSize> image;
  // Per stored channel; unset: values from 0 to 1.
  std::optional<PixelScale> scale;
  // Augmentation: a random shift by up to this many pixels in each direction, filled with black,
  // and a flip with probability 1/2.
  int shift = 0;
  bool flip = false;
};

// The mean and deviation of each channel over all samples.
PixelScale measure_scale(const PixelSamples& samples);

// Inputs float32 {channels, height, width}, targets int64 labels, each below classes.size().
std::unique_ptr<Dataset> make_pixel_dataset(PixelSamples samples, std::vector<std::string> classes,
                                            const PixelOptions& options);

}  // namespace tally::data
