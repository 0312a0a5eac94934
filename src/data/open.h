#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/locate.h"
#include "data/read_options.h"

namespace tally::data {

struct OpenOptions {
  bool train = true;     // the training part; otherwise the test or validation part
  bool augment = false;  // random shifts, crops and flips of images, random offsets of text windows
  // Wanted channels, height and width of images; empty: as stored.
  std::vector<std::int64_t> image;
  std::int64_t context = 0;  // symbols per text window; 0: kDefaultContext
  ReadOptions read;
  std::uint64_t seed = 1;
  // Scale values to mean 0 and deviation 1 over the training part; otherwise values stay as stored,
  // and pixels range from 0 to 1.
  bool normalise = true;
};

// Opens a dataset of any kind, by catalog name or path (see locate_parts()). Reports every problem
// of a file now, except for image folders, which are read on demand.
Result<std::unique_ptr<Dataset>> open_dataset(const std::string& name_or_path,
                                              const std::filesystem::path& cache_folder,
                                              const OpenOptions& options);

// The same for the result of locate() or locate_parts().
Result<std::unique_ptr<Dataset>> open_location(const Location& location,
                                               const OpenOptions& options);

}  // namespace tally::data
