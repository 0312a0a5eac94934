#pragma once
#include <filesystem>
#include <vector>

#include "data/pixels.h"

namespace tally::data {

// CIFAR-10's binary form: records of 3073 bytes, a label below 10 and 32 x 32 pixels, all red, all
// green, all blue.
inline constexpr std::size_t kCifarRecordBytes = 3073;
inline constexpr int kCifarClasses = 10;

// The records of several files (.bin, may be packed with gzip), in that order. kCorrupt if one is
// not whole records, is empty, or has a label that is none.
Result<PixelSamples> read_cifar(const std::vector<std::filesystem::path>& files);

// Adds the records of one file from memory; `name` stands in messages.
Result<void> parse_cifar(std::span<const std::byte> bytes, const std::string& name,
                         PixelSamples& samples);

}  // namespace tally::data
