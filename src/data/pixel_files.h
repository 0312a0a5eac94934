#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/pixels.h"

namespace tally::data {

// The format of the MNIST family: a file of images and a file of labels, each with a big-endian
// header and optionally gzip-compressed. Only the element type byte is supported, which all
// datasets of the family use.

// Reads images and labels. With `classes`, all labels must be below it; without it any label is
// valid. `readers` as in ReadOptions. kCorrupt for any violation of the format.
Result<PixelSamples> read_idx(const std::filesystem::path& images,
                              const std::filesystem::path& labels, std::optional<int> classes,
                              int readers = 1);

// Reads images only; all labels are 0.
Result<PixelSamples> read_idx_images(const std::filesystem::path& images);

// The same as read_idx() for files in memory; messages use their names.
Result<PixelSamples> parse_idx(const NamedBytes& images, const NamedBytes& labels,
                               std::optional<int> classes);

// Returns the number of classes of an own dataset, one more than the highest label. kCorrupt, with
// the file of the labels, if a class below it has no samples: one damaged byte must not become a
// class.
Result<int> count_classes(const std::vector<std::uint8_t>& labels, const std::string& name);

// The binary format of CIFAR-10: records of 3073 bytes, each a label below 10 and 32 x 32 pixels,
// stored as a red, a green and a blue plane.
inline constexpr std::size_t kCifarRecordBytes = 3073;
inline constexpr int kCifarClasses = 10;

// Reads the records of all files (.bin, optionally gzip-compressed) in the given order. kCorrupt if
// a file is empty, is no whole number of records, or has a label above 9.
Result<PixelSamples> read_cifar(const std::vector<std::filesystem::path>& files, int readers = 1);

// Appends the records of one file in memory to `samples`; messages use `name`.
Result<void> parse_cifar(std::span<const std::byte> bytes, const std::string& name,
                         PixelSamples& samples);

}  // namespace tally::data
