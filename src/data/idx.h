#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "data/pixels.h"

namespace tally::data {

// The format of the MNIST family: a file of images and a file of labels, each with a header of
// big-endian numbers. Both may be packed with gzip. Only bytes are read, the element type of all of
// that family.

// The images and labels of two files. With `classes`, labels must be below it; else at most one
// more than the highest label is taken for their number. kCorrupt for everything that is not right.
Result<PixelSamples> read_idx(const std::filesystem::path& images,
                              const std::filesystem::path& labels, std::optional<int> classes);

// The same from the contents of the files, for which the names stand in messages.
struct IdxFile {
  std::span<const std::byte> bytes;
  std::string name;
};
Result<PixelSamples> parse_idx(const IdxFile& images, const IdxFile& labels,
                               std::optional<int> classes);

}  // namespace tally::data
