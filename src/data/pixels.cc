#include "data/pixels.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "data/preprocessing.h"

namespace tally::data {
namespace {

using Table = std::array<float, 256>;

// Lookup tables from byte to model input, one per channel.
std::vector<Table> tables_of(const PixelScale& scale) {
  std::vector<Table> tables(scale.mean.size());
  for (std::size_t c = 0; c < tables.size(); ++c)
    for (std::size_t value = 0; value < 256; ++value)
      tables[c][value] = (static_cast<float>(value) / 255.0F - scale.mean[c]) / scale.deviation[c];
  return tables;
}

class PixelDataset final : public Dataset {
 public:
  PixelDataset(PixelSamples samples, std::vector<std::string> classes, const PixelOptions& options)
      : samples_(std::move(samples)),
        classes_(std::move(classes)),
        options_(options),
        wanted_(options.image.value_or(samples_.size)),
        scale_(fit_scale(options.scale.value_or(plain_scale(samples_.size.channels)),
                         wanted_.channels)),
        tables_(tables_of(scale_)) {
    shape_.input = {wanted_.channels, wanted_.height, wanted_.width};
  }

  std::uint64_t size() const override { return samples_.labels.size(); }
  const SampleShape& shape() const override { return shape_; }
  std::vector<std::string> classes() const override { return classes_; }
  Preprocessing preprocessing() const override { return {shape_, classes_, ImageEncoding{scale_}}; }

  Result<void> read(std::uint64_t index, Rng& augment, std::span<std::byte> input,
                    std::span<std::byte> target) const override {
    TALLY_CHECK(index < size() && input.size() == input_bytes(shape_) &&
                target.size() == sizeof(std::int64_t));
    const std::int64_t label = samples_.labels[index];
    std::memcpy(target.data(), &label, sizeof label);
    const std::size_t bytes = samples_.pixels.size() / samples_.labels.size();
    const auto* pixels =
        reinterpret_cast<const std::uint8_t*>(samples_.pixels.data()) + index * bytes;
    const std::span out(reinterpret_cast<float*>(input.data()), input.size() / sizeof(float));
    int down = 0;
    int right = 0;
    if (options_.shift > 0) {
      const auto range = 2 * static_cast<std::uint64_t>(options_.shift) + 1;
      down = static_cast<int>(augment.below(range)) - options_.shift;
      right = static_cast<int>(augment.below(range)) - options_.shift;
    }
    const bool flip = options_.flip && augment.below(2) == 1;
    if (wanted_ != samples_.size) {
      Box box = centre_box(samples_.size, wanted_);
      box.left -= right;
      box.top -= down;
      resample(planar_view(samples_.size, pixels), box, wanted_, scale_, flip, out);
    } else if (down == 0 && right == 0 && !flip) {
      copy(pixels, out);
    } else {
      copy_moved(pixels, {down, right, flip}, out);
    }
    return {};
  }

 private:
  struct Move {
    int down = 0;
    int right = 0;
    bool flip = false;
  };

  void copy(const std::uint8_t* pixels, std::span<float> out) const {
    const std::size_t plane = out.size() / tables_.size();
    for (std::size_t c = 0; c < tables_.size(); ++c)
      for (std::size_t i = c * plane; i < (c + 1) * plane; ++i) out[i] = tables_[c][pixels[i]];
  }

  void copy_moved(const std::uint8_t* pixels, const Move& move, std::span<float> out) const {
    const int height = wanted_.height;
    const int width = wanted_.width;
    std::size_t at = 0;
    for (int c = 0; c < wanted_.channels; ++c) {
      const Table& table = tables_[static_cast<std::size_t>(c)];
      for (int y = 0; y < height; ++y) {
        const int from_y = y - move.down;
        const std::uint8_t* row = pixels + (std::ptrdiff_t{c} * height + from_y) * width;
        for (int x = 0; x < width; ++x) {
          const int from_x = (move.flip ? width - 1 - x : x) - move.right;
          const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
          out[at++] = table[inside ? row[from_x] : 0];
        }
      }
    }
  }

  PixelSamples samples_;
  std::vector<std::string> classes_;
  PixelOptions options_;
  ImageSize wanted_;
  PixelScale scale_;
  std::vector<Table> tables_;
  SampleShape shape_;
};

}  // namespace

PixelScale measure_scale(const PixelSamples& samples) {
  const auto channels = static_cast<std::size_t>(samples.size.channels);
  const std::size_t plane =
      static_cast<std::size_t>(samples.size.height) * static_cast<std::size_t>(samples.size.width);
  std::vector<std::array<std::uint64_t, 256>> counts(channels);
  for (std::size_t begin = 0; begin < samples.pixels.size(); begin += plane) {
    auto& of_channel = counts[begin / plane % channels];
    for (std::size_t i = begin; i < begin + plane; ++i)
      ++of_channel[std::to_integer<std::size_t>(samples.pixels[i])];
  }
  PixelScale scale = plain_scale(samples.size.channels);
  const double total = double(plane) * double(samples.labels.size());
  for (std::size_t c = 0; c < channels && total > 0; ++c) {
    double sum = 0;
    double squares = 0;
    for (std::size_t value = 0; value < 256; ++value) {
      const double x = double(value) / 255.0;
      sum += x * double(counts[c][value]);
      squares += x * x * double(counts[c][value]);
    }
    const double mean = sum / total;
    const double variance = squares / total - mean * mean;
    scale.mean[c] = static_cast<float>(mean);
    // Avoids a division by zero if all pixels are equal.
    scale.deviation[c] = variance > 1e-12 ? static_cast<float>(std::sqrt(variance)) : 1.0F;
  }
  return scale;
}

std::unique_ptr<Dataset> make_pixel_dataset(PixelSamples samples, std::vector<std::string> classes,
                                            const PixelOptions& options) {
  return std::make_unique<PixelDataset>(std::move(samples), std::move(classes), options);
}

}  // namespace tally::data
