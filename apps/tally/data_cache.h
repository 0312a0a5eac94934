#pragma once
#include <filesystem>

namespace tally::app {

// Folder of fetched datasets, with one folder per name: $XDG_CACHE_HOME/tally/datasets, or else
// ~/.cache/tally/datasets. It need not exist.
std::filesystem::path data_cache_folder();

}  // namespace tally::app
