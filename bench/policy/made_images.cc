#include "base/errors.h"
#include "bench/policy/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "base/rng.h"

namespace tally::bench {
namespace {

constexpr int kSide = 28;
constexpr int kPixels = kSide * kSide;
constexpr int kKinds = 10;
constexpr int kPictures = 6;  // of each kind
constexpr int kBlobs = 5;     // of a picture
constexpr double kNoise = 90;

using Picture = std::array<double, kPixels>;

// Soft blobs at random places.
Picture make_picture(Rng& rng) {
  Picture picture{};
  for (int blob = 0; blob < kBlobs; ++blob) {
    const double row = rng.uniform() * kSide;
    const double column = rng.uniform() * kSide;
    const double size = 2 + 3 * rng.uniform();
    for (int i = 0; i < kPixels; ++i) {
      const double y = i / kSide - row;
      const double x = i % kSide - column;
      picture[static_cast<std::size_t>(i)] += 120 * std::exp(-(x * x + y * y) / (2 * size * size));
    }
  }
  return picture;
}

// Approximately normal, with mean 0 and deviation 1.
double noise(Rng& rng) {
  return (rng.uniform() + rng.uniform() + rng.uniform() + rng.uniform() - 2) * std::sqrt(3.0);
}

void put(std::string& bytes, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<char>((number >> shift) & 0xFF));
}

Result<void> write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream stream(file, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  if (!stream) return system_failure("cannot write " + file.string());
  return {};
}

Result<void> write_part(const std::filesystem::path& folder, const std::string& prefix,
                        std::uint64_t count, const std::vector<Picture>& pictures, Rng& rng) {
  std::string images;
  std::string labels;
  put(images, 0x00000803);
  put(images, static_cast<std::uint32_t>(count));
  put(images, kSide);
  put(images, kSide);
  put(labels, 0x00000801);
  put(labels, static_cast<std::uint32_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t which = rng.below(pictures.size());
    labels.push_back(static_cast<char>(which % kKinds));
    for (const double value : pictures[which]) {
      const double seen = std::clamp(value + kNoise * noise(rng), 0.0, 255.0);
      images.push_back(static_cast<char>(static_cast<unsigned char>(seen)));
    }
  }
  TALLY_TRY(write(folder / (prefix + "-images-idx3-ubyte"), images));
  return write(folder / (prefix + "-labels-idx1-ubyte"), labels);
}

}  // namespace

Result<void> write_made_images(const std::filesystem::path& folder, const MadeImages& what) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  Rng rng(what.seed);
  std::vector<Picture> pictures;
  for (int i = 0; i < kKinds * kPictures; ++i) pictures.push_back(make_picture(rng));
  TALLY_TRY(write_part(folder, "train", what.train, pictures, rng));
  return write_part(folder, "t10k", what.test, pictures, rng);
}

}  // namespace tally::bench
