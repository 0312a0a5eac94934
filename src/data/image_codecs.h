#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "data/image.h"

namespace tally::data {

// JPEG by libjpeg-turbo. Grey images have one channel, all others are converted to RGB.

bool is_jpeg(std::span<const std::byte> bytes);

// Reads only the header. kCorrupt as below.
Result<ImageSize> jpeg_size(std::span<const std::byte> bytes, const std::string& name);

// Decodes at 1/`reduction` of both sides, rounded up. `reduction` is 1, 2, 4 or 8; larger is
// faster. kCorrupt, with the offset and the message of the library, for a damaged or incomplete
// image; kExhausted if decoding needs too much memory.
Result<Image> decode_jpeg(std::span<const std::byte> bytes, const std::string& name, int reduction);

// PNG by libpng. Grey images have one channel, all others are converted to RGB. Transparent pixels
// are blended with black.

bool is_png(std::span<const std::byte> bytes);

// Reads only the header. kCorrupt as below.
Result<ImageSize> png_size(std::span<const std::byte> bytes, const std::string& name);

// kCorrupt for a damaged or incomplete image, with the offset of the chunk that is truncated or has
// a wrong checksum.
Result<Image> decode_png(std::span<const std::byte> bytes, const std::string& name);

}  // namespace tally::data
