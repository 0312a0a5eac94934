#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/csv.h"
#include "data/dataset.h"
#include "data/locate.h"
#include "data/text.h"

namespace tally::data {

struct OpenOptions {
  bool train = true;     // the training part; otherwise the test or validation part
  bool augment = false;  // random shifts, crops and flips of images, random offsets of text windows
  // Wanted channels, height and width of images; empty: as stored.
  std::vector<std::int64_t> image;
  std::int64_t context = 0;  // symbols per text window; 0: kDefaultContext
  TextLevel level = TextLevel::kCharacter;
  // Tables: name or number (from 1) of the target column; empty: the last column.
  std::string target_column;
  CsvTarget target = CsvTarget::kAuto;
  // The fraction to hold out if the dataset has no test part; unset: 0.1. Texts hold out their end;
  // other data are chosen by `seed`.
  std::optional<double> validation;
  std::uint64_t seed = 1;
  // Scale values to mean 0 and deviation 1 over the training part; otherwise values stay as stored,
  // and pixels range from 0 to 1.
  bool normalise = true;
};

// Opens a dataset of any kind, by catalog name or path (see locate()). Reports every problem of a
// file now, except for image folders, which are read on demand.
Result<std::unique_ptr<Dataset>> open_dataset(const std::string& name_or_path,
                                              const std::filesystem::path& cache_folder,
                                              const OpenOptions& options);

// The same for the result of locate().
Result<std::unique_ptr<Dataset>> open_location(const Location& location,
                                               const OpenOptions& options);

}  // namespace tally::data
