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

// Writes generated 28 x 28 images of ten classes in the idx format: each is one of several pictures
// of its class under strong noise, so that a training needs no external data.
Result<void> write_made_images(const std::filesystem::path& folder, const MadeImages& what);

}  // namespace tally::bench
