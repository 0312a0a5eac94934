#include "data/image_codecs.h"

#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "data/input_file.h"

namespace tally::data {
namespace {

constexpr std::array<unsigned char, 8> kSignature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
constexpr std::size_t kHeaderBytes =
    33;  // signature of 8 bytes, then the IHDR chunk: 13 bytes and 12 bytes of framing
constexpr std::uint32_t kMaxChunkBytes = 0x7FFFFFFF;

// Finds the first damaged chunk up to IEND. libpng does not report the offset of the damage, and
// does not read all chunks. `checksums` is optional because it is the slow part.
std::optional<Error> damage_in(std::span<const std::byte> bytes, const std::string& name,
                               bool checksums) {
  constexpr std::uint32_t kEnd = 0x49454E44;
  std::size_t at = kSignature.size();
  for (;;) {
    const std::size_t left = bytes.size() - at;
    if (left < 12)
      return corrupt(name, at, "a chunk of at least 12 bytes",
                     fmt::format("{} and the end of the file", left));
    const std::uint32_t length = big_endian(bytes, at);
    if (length > kMaxChunkBytes || length > left - 12) {
      return corrupt(name, at, fmt::format("a chunk of {} bytes", std::uint64_t{length} + 12),
                     fmt::format("{} and the end of the file", left));
    }
    if (checksums) {
      const auto checked = bytes.subspan(at + 4, length + 4);
      const auto sum = ::crc32(0, reinterpret_cast<const Bytef*>(checked.data()),
                               static_cast<uInt>(checked.size()));
      const std::uint32_t stored = big_endian(bytes, at + 8 + length);
      if (sum != stored)
        return corrupt(name, at, fmt::format("a chunk with checksum {:08x}", stored),
                       fmt::format("{:08x}", sum));
    }
    if (big_endian(bytes, at + 4) == kEnd) return std::nullopt;
    at += length + 12;
  }
}

Error not_decoded(std::span<const std::byte> bytes, const std::string& name, const char* words) {
  if (auto damage = damage_in(bytes, name, true)) return *std::move(damage);
  return corrupt(name, bytes.size(), "a whole PNG image", words);
}

// Owns the state of libpng.
struct PngImageDecoder {
  PngImageDecoder() {
    std::memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
  }
  ~PngImageDecoder() { png_image_free(&image); }
  PngImageDecoder(const PngImageDecoder&) = delete;
  PngImageDecoder& operator=(const PngImageDecoder&) = delete;
  png_image image;
};

}  // namespace

bool is_png(std::span<const std::byte> bytes) {
  return bytes.size() >= kSignature.size() &&
         std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) == 0;
}

Result<ImageSize> png_size(std::span<const std::byte> bytes, const std::string& name) {
  if (!is_png(bytes)) return corrupt(name, 0, "the signature of PNG", "another beginning");
  if (bytes.size() < kHeaderBytes)
    return corrupt(name, bytes.size(), fmt::format("a header of {} bytes", kHeaderBytes),
                   "the end of the file");
  if (big_endian(bytes, 8) != 13 || big_endian(bytes, 12) != 0x49484452)
    return corrupt(name, 8, "the chunk IHDR of 13 bytes",
                   fmt::format("{:08x} {:08x}", big_endian(bytes, 8), big_endian(bytes, 12)));
  const std::uint32_t width = big_endian(bytes, 16);
  const std::uint32_t height = big_endian(bytes, 20);
  const auto colour = std::to_integer<int>(bytes[25]);
  const bool grey = (colour & (PNG_COLOR_MASK_COLOR | PNG_COLOR_MASK_PALETTE)) == 0;
  const auto side = [](std::uint32_t value) {
    return static_cast<int>(std::min<std::uint32_t>(value, kMaxImageSide + 1));
  };
  const ImageSize size{grey ? 1 : 3, side(height), side(width)};
  TALLY_TRY(check_size(size, name, 16));
  return size;
}

Result<Image> decode_png(std::span<const std::byte> bytes, const std::string& name) {
  TALLY_TRY(const ImageSize size, png_size(bytes, name));
  PngImageDecoder decoder;
  if (png_image_begin_read_from_memory(&decoder.image, bytes.data(), bytes.size()) == 0)
    return not_decoded(bytes, name, decoder.image.message);
  decoder.image.format = size.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Image image{.size = size};
  image.pixels.resize(PNG_IMAGE_SIZE(decoder.image));
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&decoder.image, &black, image.pixels.data(), 0, nullptr) == 0)
    return not_decoded(bytes, name, decoder.image.message);
  if (static_cast<int>(decoder.image.height) != size.height ||
      static_cast<int>(decoder.image.width) != size.width)
    return not_decoded(bytes, name, "another size than its header has");
  if (auto damage = damage_in(bytes, name, false)) return *std::move(damage);
  return image;
}

}  // namespace tally::data
