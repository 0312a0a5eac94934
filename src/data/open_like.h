#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/locate.h"
#include "data/preprocessing.h"

namespace tally::data {

enum class Targets : std::uint8_t {
  kNeeded,   // to judge the model: each sample has a target that the training part knew
  kIgnored,  // to use the model: targets may be absent or unknown, and are then 0
};

// Opens a dataset for a model that was trained with this preprocessing: scales, columns, classes,
// alphabet and the size of images are those of the model, not those of the files. Opens the test
// part if there is one, otherwise all samples. kInvalid, with what the model takes, for data of
// another kind; kCorrupt, with file and position, for a sample that the model cannot take.
Result<std::unique_ptr<Dataset>> open_like(const Location& location, const Preprocessing& like,
                                           Targets targets);

// Finds the files for a model with this preprocessing, by catalog name or path.
Result<Location> locate_like(const std::string& name_or_path, const std::filesystem::path& cache,
                             const Preprocessing& like);

// Opens JPEG and PNG files as samples without targets, for a model of images.
Result<std::unique_ptr<Dataset>> open_images_like(std::vector<std::filesystem::path> files,
                                                  const Preprocessing& like);

}  // namespace tally::data
