#include "data/pixel_files.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace tally::data {
namespace {

constexpr std::uint32_t kImagesMagic = 0x00000803;  // bytes, three dimensions
constexpr std::uint32_t kLabelsMagic = 0x00000801;  // bytes, one dimension
constexpr std::size_t kImagesHeaderBytes = 16;
constexpr int kMaxSide = 4096;

// Checks the magic number and that the header is complete.
Result<void> check_header(const NamedBytes& file, std::uint32_t magic, const char* what) {
  const std::size_t header_bytes = 4 + 4 * std::size_t{magic & 0xFF};
  if (file.bytes.size() < header_bytes) {
    return corrupt(file.name, file.bytes.size(),
                   fmt::format("an IDX header of {} bytes", header_bytes), "the end of the file");
  }
  if (const std::uint32_t found = big_endian(file.bytes, 0); found != magic)
    return corrupt(file.name, 0, fmt::format("{:#010x}, which begins {}", magic, what),
                   fmt::format("{:#010x}", found));
  return {};
}

Result<void> check_length(const NamedBytes& file, std::uint64_t header_bytes,
                          std::uint64_t data_bytes, const std::string& what) {
  if (file.bytes.size() == header_bytes + data_bytes) return {};
  const std::string expected =
      fmt::format("{} bytes: a header of {} and {}", header_bytes + data_bytes, header_bytes, what);
  if (file.bytes.size() < header_bytes + data_bytes)
    return corrupt(file.name, file.bytes.size(), expected, "the end of the file");
  return corrupt(file.name, header_bytes + data_bytes, expected,
                 fmt::format("{} bytes", file.bytes.size()));
}

struct Images {
  std::uint32_t count = 0;
  ImageSize size;
};

Result<Images> parse_images(const NamedBytes& file) {
  TALLY_TRY(check_header(file, kImagesMagic, "a file of images"));
  const std::uint32_t count = big_endian(file.bytes, 4);
  const std::array<std::uint32_t, 2> sides{big_endian(file.bytes, 8), big_endian(file.bytes, 12)};
  for (std::size_t i = 0; i < sides.size(); ++i)
    if (sides[i] == 0 || sides[i] > kMaxSide)
      return corrupt(file.name, 8 + 4 * i, fmt::format("a side from 1 to {}", kMaxSide),
                     fmt::format("{}", sides[i]));
  const std::uint64_t bytes = std::uint64_t{count} * sides[0] * sides[1];
  TALLY_TRY(check_length(file, kImagesHeaderBytes, bytes,
                         fmt::format("{} images of {} x {}", count, sides[0], sides[1])));
  return Images{count, {1, static_cast<int>(sides[0]), static_cast<int>(sides[1])}};
}

}  // namespace

Result<PixelSamples> parse_idx(const NamedBytes& images, const NamedBytes& labels,
                               std::optional<int> classes) {
  TALLY_TRY(const Images header, parse_images(images));
  TALLY_TRY(check_header(labels, kLabelsMagic, "a file of labels"));
  const std::uint32_t count = big_endian(labels.bytes, 4);
  TALLY_TRY(check_length(labels, 8, count, fmt::format("{} labels", count)));
  if (count != header.count) {
    return corrupt(labels.name, 4,
                   fmt::format("{} labels, as {} has images", header.count, images.name),
                   fmt::format("{}", count));
  }
  PixelSamples samples{
      .size = header.size,
      .pixels = Bytes(images.bytes.begin() + kImagesHeaderBytes, images.bytes.end()),
      .labels = std::vector<std::uint8_t>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    samples.labels[i] = std::to_integer<std::uint8_t>(labels.bytes[8 + i]);
    if (classes && samples.labels[i] >= *classes)
      return corrupt(labels.name, 8 + i, fmt::format("a label below {}", *classes),
                     fmt::format("{}", samples.labels[i]));
  }
  return samples;
}

Result<int> count_classes(const std::vector<std::uint8_t>& labels, const std::string& name) {
  std::array<bool, 256> used{};
  for (const std::uint8_t label : labels) used[label] = true;
  const int empty = static_cast<int>(std::find(used.begin(), used.end(), false) - used.begin());
  const auto above = std::find_if(labels.begin(), labels.end(),
                                  [empty](std::uint8_t label) { return label > empty; });
  if (above == labels.end()) return empty;
  int last = empty;
  while (!used[static_cast<std::size_t>(last) + 1]) ++last;
  return corrupt(name, 8 + static_cast<std::uint64_t>(above - labels.begin()),
                 "classes numbered from 0 on, each with samples",
                 fmt::format("the label {}, and no label {}{}", *above, empty,
                             last > empty ? fmt::format(" to {}", last) : ""));
}

Result<PixelSamples> read_idx(const std::filesystem::path& images,
                              const std::filesystem::path& labels, std::optional<int> classes,
                              int readers) {
  TALLY_TRY(const Bytes image_bytes, read_file(images, {.readers = readers}));
  TALLY_TRY(const Bytes label_bytes, read_file(labels, {.readers = readers}));
  return parse_idx({image_bytes, images.string()}, {label_bytes, labels.string()}, classes);
}

Result<PixelSamples> read_idx_images(const std::filesystem::path& images) {
  TALLY_TRY(const Bytes bytes, read_file(images));
  TALLY_TRY(const Images header, parse_images({bytes, images.string()}));
  return PixelSamples{.size = header.size,
                      .pixels = Bytes(bytes.begin() + kImagesHeaderBytes, bytes.end()),
                      .labels = std::vector<std::uint8_t>(header.count)};
}

Result<void> parse_cifar(std::span<const std::byte> bytes, const std::string& name,
                         PixelSamples& samples) {
  samples.size = {3, 32, 32};
  const std::size_t count = bytes.size() / kCifarRecordBytes;
  if (count == 0 || bytes.size() % kCifarRecordBytes != 0) {
    return corrupt(
        name, count * kCifarRecordBytes,
        fmt::format("records of {} bytes each, at least one", kCifarRecordBytes),
        fmt::format("{} bytes and the end of the file", bytes.size() % kCifarRecordBytes));
  }
  samples.pixels.reserve(samples.pixels.size() + count * (kCifarRecordBytes - 1));
  for (std::size_t i = 0; i < count; ++i) {
    const auto record = bytes.subspan(i * kCifarRecordBytes, kCifarRecordBytes);
    const auto label = std::to_integer<std::uint8_t>(record[0]);
    if (label >= kCifarClasses)
      return corrupt(name, i * kCifarRecordBytes, fmt::format("a label below {}", kCifarClasses),
                     fmt::format("{}", label));
    samples.labels.push_back(label);
    samples.pixels.insert(samples.pixels.end(), record.begin() + 1, record.end());
  }
  return {};
}

Result<PixelSamples> read_cifar(const std::vector<std::filesystem::path>& files, int readers) {
  PixelSamples samples;
  for (const std::filesystem::path& file : files) {
    TALLY_TRY(const Bytes bytes, read_file(file, {.readers = readers}));
    TALLY_TRY(parse_cifar(bytes, file.string(), samples));
  }
  return samples;
}

}  // namespace tally::data
