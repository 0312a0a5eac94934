#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "data/image.h"

namespace tally::data {

// By libjpeg-turbo. Grey images have one channel, all others come as red, green, blue.

bool is_jpeg(std::span<const std::byte> bytes);

// From the header alone. kCorrupt as below.
Result<ImageSize> jpeg_size(std::span<const std::byte> bytes, const std::string& name);

// Decodes at 1/`reduction` of both sides, rounded up: 1, 2, 4 or 8, the larger the faster.
// kCorrupt, with the offset that was reached and the library's words, for everything but whole
// images; kExhausted if it takes too much memory.
Result<Image> decode_jpeg(std::span<const std::byte> bytes, const std::string& name, int reduction);

}  // namespace tally::data
