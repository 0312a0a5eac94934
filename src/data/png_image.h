#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "data/image.h"

namespace tally::data {

// By libpng. Grey images have one channel, all others come as red, green, blue; what is transparent
// lies on black.

bool is_png(std::span<const std::byte> bytes);

// From the header alone. kCorrupt as below.
Result<ImageSize> png_size(std::span<const std::byte> bytes, const std::string& name);

// kCorrupt, with the offset of the chunk that is cut off or whose checksum is wrong, for everything
// but whole images.
Result<Image> decode_png(std::span<const std::byte> bytes, const std::string& name);

}  // namespace tally::data
