#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/catalog.h"
#include "tally/error.h"

namespace tally::data {

// The files of a dataset. Each part has: for kIdx the images, then the labels; for kCifar and kText
// all files; for kImageFolder the folder of class folders; for kCsv, kLibsvm and kMovieLens one
// file. `test` is empty if the dataset has no test part.
struct Location {
  Kind kind = Kind::kText;
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> test;
  const CatalogEntry* known = nullptr;  // set if the dataset was found by its catalog name
  int readers = 1;                      // as in ReadOptions
};

// Finds a dataset by catalog name (in CACHE/NAME, or where Debian installs it) or by path. For a
// path, file names decide first, then the first bytes of a file. kSystem, with a remedy, if nothing
// is found; kInvalid if the format is not supported.
Result<Location> locate(const std::string& name_or_path, const std::filesystem::path& cache);
// The same; the message about a file without a supported format has the formats `accepted`.
Result<Location> locate_among(const std::string& name_or_path, const std::filesystem::path& cache,
                              std::string_view accepted);

// The test file in the same folder as a training file, if it exists: a9a.t for a9a, test.csv for
// train.csv.
std::vector<std::filesystem::path> test_beside(const std::filesystem::path& file);

// True for the name of a csv table, optionally gzip-compressed: .csv, .tsv or .data.
bool is_csv_name(const std::filesystem::path& file);

// True if `folder` has all files of a catalog dataset.
bool has_files(const CatalogEntry& entry, const std::filesystem::path& folder);

}  // namespace tally::data
