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

// Many small images of one size with labels, in memory as bytes: channel after channel, image after
// image.
struct PixelSamples {
  ImageSize size;
  Bytes pixels;
  std::vector<std::uint8_t> labels;
};

struct PixelOptions {
  // Wanted channels, height and width; none: as stored.
  std::optional<ImageSize> image;
  // Per stored channel; none: values from 0 to 1.
  std::optional<PixelScale> scale;
  // With augmentation: moved by up to so many pixels either way, black coming in; and mirrored half
  // of the time.
  int shift = 0;
  bool flip = false;
};

// Mean and deviation of every channel over all samples.
PixelScale measure_scale(const PixelSamples& samples);

// Inputs float32 {channels, height, width}, targets int64 labels, each below classes.size().
std::unique_ptr<Dataset> make_pixel_dataset(PixelSamples samples, std::vector<std::string> classes,
                                            const PixelOptions& options);

}  // namespace tally::data
