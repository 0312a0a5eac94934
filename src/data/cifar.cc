#include "data/cifar.h"

#include <fmt/format.h>

namespace tally::data {

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

Result<PixelSamples> read_cifar(const std::vector<std::filesystem::path>& files) {
  PixelSamples samples;
  for (const std::filesystem::path& file : files) {
    TALLY_TRY(const Bytes bytes, read_file(file));
    TALLY_TRY(parse_cifar(bytes, file.string(), samples));
  }
  return samples;
}

}  // namespace tally::data
