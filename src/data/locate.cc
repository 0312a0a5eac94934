// locate() tries these in order: a catalog name (locate_known()), a folder (locate_folder(), by the
// names of its files), a file (locate_file(), by its first bytes and its name).
#include "data/locate.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/nearest_word.h"
#include "data/image_folder.h"
#include "data/input_file.h"
#include "data/libsvm.h"

namespace tally::data {
namespace {

namespace fs = std::filesystem;

std::string plain_name(const fs::path& path) {
  return path.extension() == ".gz" ? path.stem().string() : path.filename().string();
}

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) {
    return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  });
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.is_regular_file(ignored)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The name with the first `part` replaced; empty if the name does not contain `part`.
std::string with(std::string name, std::string_view part, std::string_view replacement) {
  const std::size_t at = name.find(part);
  return at == std::string::npos ? "" : name.replace(at, part.size(), replacement);
}

bool is_idx_images(const fs::path& path) {
  const std::string name = plain_name(path);
  return name.find("images") != std::string::npos && name.find("idx3") != std::string::npos;
}

// The label file of an image file, plain or gzip-compressed, as the image file is if possible.
fs::path labels_beside(const fs::path& images) {
  const std::string name = with(with(plain_name(images), "images", "labels"), "idx3", "idx1");
  fs::path same = images.parent_path() / name;
  fs::path other = images.parent_path() / (name + ".gz");
  if (images.extension() == ".gz") std::swap(same, other);
  std::error_code ignored;
  return !fs::exists(same, ignored) && fs::exists(other, ignored) ? other : same;
}

bool is_test_name(const std::string& name) {
  return name.rfind("t10k", 0) == 0 || name.rfind("test", 0) == 0 || name.rfind("val", 0) == 0;
}

Location idx_of(const std::vector<fs::path>& images) {
  Location found{.kind = Kind::kIdx};
  for (const fs::path& file : images) {
    auto& part = is_test_name(plain_name(file)) ? found.test : found.train;
    // The folder may have a plain and a compressed copy; use the first.
    if (part.empty()) part = {file, labels_beside(file)};
  }
  return found;
}

// train.X and test.X are the two parts; a single file is the training part.
Location parts_of(Kind kind, const std::vector<fs::path>& files) {
  Location found{.kind = kind};
  for (const fs::path& file : files)
    (is_test_name(plain_name(file)) ? found.test : found.train).push_back(file);
  return found;
}

std::string accepted_folders() {
  return "a folder of IDX files (train-images-idx3-ubyte, ...), of CIFAR files (data_batch_1.bin, "
         "...), of class folders with "
         "JPEG or PNG images, of train.csv and test.csv, or of .txt files";
}

Result<Location> locate_folder(const fs::path& folder) {
  const std::vector<fs::path> files = files_of(folder);
  const auto chosen = [&files](auto&& wanted) {
    std::vector<fs::path> result;
    std::copy_if(files.begin(), files.end(), std::back_inserter(result), wanted);
    return result;
  };
  if (const auto images = chosen(is_idx_images); !images.empty()) return idx_of(images);
  const auto batches = chosen([](const fs::path& file) {
    const std::string name = plain_name(file);
    return name.find("_batch") != std::string::npos && ends_with_any(name, {".bin"});
  });
  if (!batches.empty()) return parts_of(Kind::kCifar, batches);
  if (auto images = find_image_folders(folder)) {
    Location found{.kind = Kind::kImageFolder, .train = {images->train}};
    if (images->test) found.test = {*images->test};
    return found;
  }
  const auto ratings =
      chosen([](const fs::path& file) { return plain_name(file) == "ratings.csv"; });
  if (!ratings.empty()) return Location{.kind = Kind::kMovieLens, .train = {ratings.front()}};
  const auto tables = chosen([](const fs::path& file) {
    return ends_with_any(plain_name(file), {".csv", ".tsv"});
  });
  const Location parts = parts_of(Kind::kCsv, tables);
  if (parts.train.size() == 1 && parts.test.size() <= 1) return parts;
  if (parts.train.size() > 1)
    return invalid(
        fmt::format("{} has {} tables: name one of them", folder.string(), tables.size()));
  const auto texts =
      chosen([](const fs::path& file) { return ends_with_any(plain_name(file), {".txt"}); });
  if (!texts.empty()) return Location{.kind = Kind::kText, .train = texts};
  if (const auto images = images_in(folder); images.has_value() && !images->empty())
    return invalid(
        "{} has images, but no class folders: move the images of each class into a "
        "folder with the name of the class",
        folder.string());
  return invalid(
      fmt::format("{} has no supported format: expected {}", folder.string(), accepted_folders()));
}

Result<Location> locate_file(const fs::path& file, std::string_view accepted) {
  const std::string name = plain_name(file);
  TALLY_TRY(const std::string beginning, first_bytes(file, 65536));
  const std::string idx_start("\0\0\x08", 3);
  if (beginning.compare(0, 3, idx_start) == 0 || is_idx_images(file)) {
    if (beginning.size() > 3 && beginning[3] == 1)
      return invalid(fmt::format("{} has labels: name the file of images, or the folder of both",
                                 file.string()));
    Location found{.kind = Kind::kIdx, .train = {file, labels_beside(file)}};
    std::error_code ignored;
    const std::string test = with(file.filename().string(), "train", "t10k");
    if (!test.empty() && fs::exists(file.parent_path() / test, ignored))
      found.test = {file.parent_path() / test, labels_beside(file.parent_path() / test)};
    return found;
  }
  if (ends_with_any(name, {".bin"})) return Location{.kind = Kind::kCifar, .train = {file}};
  if (ends_with_any(name, {".txt", ".md"})) return Location{.kind = Kind::kText, .train = {file}};
  if (is_csv_name(file))
    return Location{.kind = Kind::kCsv, .train = {file}, .test = test_beside(file)};
  if (ends_with_any(name, {".svm", ".libsvm"}) || looks_like_libsvm(beginning))
    return Location{.kind = Kind::kLibsvm, .train = {file}, .test = test_beside(file)};
  if (beginning.find('\0') == std::string::npos && !beginning.empty())
    return Location{.kind = Kind::kText, .train = {file}};
  return invalid("{} has no supported format: expected {}", file.string(), accepted);
}

Result<Location> locate_known(const CatalogEntry& entry, const fs::path& cache) {
  for (const fs::path& folder : {cache / entry.name, fs::path(entry.installed)}) {
    if (folder.empty() || !has_files(entry, folder)) continue;
    if (entry.kind == Kind::kText)
      return Location{
          .kind = entry.kind, .train = {folder / entry.files.front().name}, .known = &entry};
    TALLY_TRY(Location found, locate_folder(folder));
    found.known = &entry;
    return found;
  }
  return system_failure("{0} is not in {1}: fetch it with `tally data get {0}`", entry.name,
                        cache.string());
}

// "; did you mean houses.csv?" for a dataset, or for a file in the folder where `path` would be.
std::string guess_for(const fs::path& path) {
  if (std::string guess = catalog_guess(path.string()); !guess.empty()) return guess;
  std::vector<std::string> names;
  std::error_code failure;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  const std::vector<std::string_view> known(names.begin(), names.end());
  return known.empty() ? "" : did_you_mean(path.filename().string(), known);
}

}  // namespace

std::vector<fs::path> test_beside(const fs::path& file) {
  const std::string name = file.filename().string();
  std::vector<std::string> names{with(name, "train", "test"), name + ".t"};
  if (file.extension() == ".gz") names.push_back(file.stem().string() + ".t.gz");
  std::error_code ignored;
  for (const std::string& candidate : names)
    if (!candidate.empty() && fs::is_regular_file(file.parent_path() / candidate, ignored))
      return {file.parent_path() / candidate};
  return {};
}

bool is_csv_name(const fs::path& file) {
  return ends_with_any(plain_name(file), {".csv", ".tsv", ".data"});
}

bool has_files(const CatalogEntry& entry, const fs::path& folder) {
  std::error_code ignored;
  return std::all_of(entry.files.begin(), entry.files.end(), [&](const CatalogFile& file) {
    return fs::is_regular_file(folder / file.name, ignored);
  });
}

Result<Location> locate(const std::string& name_or_path, const fs::path& cache) {
  return locate_among(name_or_path, cache, "an IDX file, a CIFAR .bin, .txt, .csv or libsvm");
}

Result<Location> locate_among(const std::string& name_or_path, const fs::path& cache,
                              std::string_view accepted) {
  if (const CatalogEntry* entry = find_in_catalog(name_or_path)) return locate_known(*entry, cache);
  std::error_code failure;
  const fs::file_status status = fs::status(name_or_path, failure);
  if (fs::is_directory(status)) return locate_folder(name_or_path);
  if (fs::exists(status)) return locate_file(name_or_path, accepted);
  std::string names;
  for (const CatalogEntry& entry : catalog())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  return system_failure("no file or folder {}, and no dataset of that name{} (names: {})",
                        name_or_path, guess_for(name_or_path), names);
}

}  // namespace tally::data
