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
  bool augment = false;  // images moved, cropped and mirrored, windows of texts moved, by chance
  // Channels, height and width wanted of images; empty: as stored.
  std::vector<std::int64_t> image;
  std::int64_t context = 0;  // symbols of a window of a text; 0: kDefaultContext
  TextLevel level = TextLevel::kCharacter;
  // Of a table: its name, or its number from 1; empty: the last.
  std::string target_column;
  CsvTarget target = CsvTarget::kAuto;
  // The share held out where the data have no test part of their own; none: 0.1. Of texts the end,
  // else by `seed`.
  std::optional<double> validation;
  std::uint64_t seed = 1;
  // Values brought to mean 0 and deviation 1, by the training part; otherwise as stored, pixels
  // from 0 to 1.
  bool normalise = true;
};

// The one entry to all kinds of data: a name of the catalog or a path, as locate() finds it.
// Everything that can be wrong with a file is found here, but for images in folders, which are read
// when they are wanted.
Result<std::unique_ptr<Dataset>> open_dataset(const std::string& name_or_path,
                                              const std::filesystem::path& cache_folder,
                                              const OpenOptions& options);

// The same, of what has been found.
Result<std::unique_ptr<Dataset>> open_location(const Location& location,
                                               const OpenOptions& options);

}  // namespace tally::data
