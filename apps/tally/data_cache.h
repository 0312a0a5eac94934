#pragma once
#include <filesystem>

namespace tally::app {

// Where fetched datasets are kept, each in a folder of its name: $XDG_CACHE_HOME/tally/datasets,
// else
// ~/.cache/tally/datasets. It need not exist.
std::filesystem::path data_cache_folder();

}  // namespace tally::app
