#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <jpeglib.h>
#include <png.h>

#include "data/image.h"

namespace tally::data {

// An image whose first channel rises to the right; the other channels rise to the bottom.
inline Image gradient_image(const ImageSize& size) {
  Image image{.size = size, .pixels = {}};
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x)
      for (int c = 0; c < size.channels; ++c)
        image.pixels.push_back(
            static_cast<std::uint8_t>((c == 0 ? x * 255 / size.width : y * 255 / size.height)));
  return image;
}

// An image of one value.
inline Image plain_image(const ImageSize& size, std::uint8_t value) {
  return {.size = size,
          .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(size.channels) *
                                                  static_cast<std::size_t>(size.height) *
                                                  static_cast<std::size_t>(size.width),
                                              value)};
}

inline std::string png_of(const Image& image) {
  png_image header;
  std::memset(&header, 0, sizeof header);
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.size.width);
  header.height = static_cast<png_uint_32>(image.size.height);
  header.format = image.size.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t bytes = 0;
  if (png_image_write_to_memory(&header, nullptr, &bytes, 0, image.pixels.data(), 0, nullptr) == 0)
    std::abort();
  std::string text(bytes, '\0');
  if (png_image_write_to_memory(&header, text.data(), &bytes, 0, image.pixels.data(), 0, nullptr) ==
      0)
    std::abort();
  text.resize(bytes);
  return text;
}

inline std::string jpeg_of(const Image& image) {
  jpeg_compress_struct state{};
  jpeg_error_mgr errors{};
  state.err = jpeg_std_error(&errors);
  jpeg_create_compress(&state);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&state, &memory, &bytes);
  state.image_width = static_cast<JDIMENSION>(image.size.width);
  state.image_height = static_cast<JDIMENSION>(image.size.height);
  state.input_components = image.size.channels;
  state.in_color_space = image.size.channels == 1   ? JCS_GRAYSCALE
                         : image.size.channels == 4 ? JCS_CMYK
                                                    : JCS_RGB;
  jpeg_set_defaults(&state);
  jpeg_set_quality(&state, 95, TRUE);
  jpeg_start_compress(&state, TRUE);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(image.size.width) *
                                static_cast<std::size_t>(image.size.channels));
  while (state.next_scanline < state.image_height) {
    std::memcpy(row.data(), &image.pixels[state.next_scanline * row.size()], row.size());
    JSAMPROW start = row.data();
    jpeg_write_scanlines(&state, &start, 1);
  }
  jpeg_finish_compress(&state);
  const std::string text(reinterpret_cast<char*>(memory), bytes);
  jpeg_destroy_compress(&state);
  std::free(memory);
  return text;
}

}  // namespace tally::data
