#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/catalog.h"
#include "tally/error.h"

namespace tally::data {

// What lies at a path. Of each part: kIdx images, then labels; kCifar, kText all files;
// kImageFolder the folder of the class folders; kCsv, kLibsvm, kMovieLens one file. `test` is empty
// where the data have no such part.
struct Location {
  Kind kind = Kind::kText;
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> test;
  const CatalogEntry* known = nullptr;  // if it was named
};

// Finds a dataset of the catalog (in the folder of its name below `cache`, or where Debian installs
// it), or what is at a path: by the names of its files, then by what they begin with. kSystem, with
// what to do, if nothing is there; kInvalid if it is nothing that can be read.
Result<Location> locate(const std::string& name_or_path, const std::filesystem::path& cache);

// The test part that lies beside a training file, if there is one: a9a and a9a.t, train.csv and
// test.csv.
std::vector<std::filesystem::path> test_beside(const std::filesystem::path& file);

// Whether all files of a dataset of the catalog are in `folder`.
bool has_files(const CatalogEntry& entry, const std::filesystem::path& folder);

}  // namespace tally::data
