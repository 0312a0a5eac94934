#pragma once
#include <cstdint>
#include <filesystem>

#include "tally/error.h"

namespace tally::bench {

struct MadeImages {
  std::uint64_t train = 20000;
  std::uint64_t test = 2000;
  std::uint64_t seed = 1;
};

// Writes ten kinds of made 28 x 28 images in the files of the idx format: each a picture of its
// kind, of which there are several, under noise that hides much of it. So a training needs no data
// from elsewhere.
Result<void> write_made_images(const std::filesystem::path& folder, const MadeImages& what);

}  // namespace tally::bench
