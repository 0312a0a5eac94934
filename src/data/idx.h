#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "data/pixels.h"

namespace tally::data {

// The format of the MNIST family: a file of images and a file of labels, each with a big-endian
// header and optionally gzip-compressed. Only the element type byte is supported, which all
// datasets of the family use.

// Reads images and labels. With `classes`, all labels must be below it; without it any label is
// valid. kCorrupt for any violation of the format.
Result<PixelSamples> read_idx(const std::filesystem::path& images,
                              const std::filesystem::path& labels, std::optional<int> classes);

// The same for files in memory; messages use their names.
struct IdxFile {
  std::span<const std::byte> bytes;
  std::string name;
};
Result<PixelSamples> parse_idx(const IdxFile& images, const IdxFile& labels,
                               std::optional<int> classes);

}  // namespace tally::data
