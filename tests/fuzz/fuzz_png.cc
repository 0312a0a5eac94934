// Untrusted PNG images: the header's sizes are bounded before memory is allocated, and a decoded
// image has the size of its header.
#include <span>

#include "base/check.h"
#include "data/image_codecs.h"
#include "fuzz_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::data;
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  const auto header = png_size(input, "image");
  if (!header.has_value()) {
    TALLY_CHECK(header.error().code == tally::ErrorCode::kCorrupt);
    return 0;
  }
  TALLY_CHECK(header->height > 0 && header->height <= kMaxImageSide && header->width > 0 &&
              header->width <= kMaxImageSide);
  TALLY_CHECK(std::int64_t{header->height} * header->width <= kMaxImagePixels);
  if (header->height > 64 || header->width > 64) return 0;  // the rest would only be slow
  const auto image = decode_png(input, "image");
  if (!image.has_value()) return 0;
  TALLY_CHECK(image->size == *header);
  TALLY_CHECK(image->pixels.size() == static_cast<std::size_t>(header->channels) *
                                          static_cast<std::size_t>(header->height) *
                                          static_cast<std::size_t>(header->width));
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  // One red pixel, then the same header with sides of 2^31 - 1.
  std::vector<std::uint8_t> pixel{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n', 0,    0,    0,    13,
                                  'I',  'H', 'D', 'R', 0,    0,    0,    1,    0,    0,    0,    1,
                                  8,    2,   0,   0,   0,    0x90, 0x77, 0x53, 0xDE, 0,    0,    0,
                                  12,   'I', 'D', 'A', 'T',  0x78, 0x9C, 0x63, 0xF8, 0xCF, 0xC0, 0,
                                  0,    3,   1,   1,   0,    0xC9, 0xFE, 0x92, 0xEF, 0,    0,    0,
                                  0,    'I', 'E', 'N', 'D',  0xAE, 0x42, 0x60, 0x82};
  std::vector<std::uint8_t> huge = pixel;
  for (const std::size_t at : {16U, 20U}) {
    huge[at] = 0x7F;
    huge[at + 1] = huge[at + 2] = huge[at + 3] = 0xFF;
  }
  return {{}, pixel, huge};
}
