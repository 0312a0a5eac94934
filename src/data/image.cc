// resample() is separable. taps_for() computes for each output column and each output row its
// source pixels and their weights. shrink_channel() applies the column taps to the source rows that
// are needed, and then the row taps to the resulting `rows`.
#include "data/image.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "base/memory_limit.h"
#include "base/units.h"
#include "data/input_file.h"

namespace tally::data {
namespace {

// For each output pixel along one axis: its first source pixel, the number of source pixels, and
// their weights.
struct Taps {
  std::vector<int> first;
  std::vector<int> count;
  std::vector<float> weights;  // `most` per output pixel
  int most = 0;
};

// A triangle filter over the source. Its base is two source pixels wide when enlarging, and two
// output pixels wide when shrinking.
Taps taps_for(double begin, double length, int results, int pixels) {
  const double scale = length / results;
  const double reach = std::max(scale, 1.0);
  Taps taps;
  taps.most = static_cast<int>(std::ceil(reach)) * 2 + 1;
  taps.weights.resize(static_cast<std::size_t>(results) * static_cast<std::size_t>(taps.most),
                      0.0F);
  for (int i = 0; i < results; ++i) {
    const double centre = begin + (i + 0.5) * scale;
    const int first = std::clamp(static_cast<int>(std::floor(centre - reach + 0.5)), 0, pixels - 1);
    const int last =
        std::clamp(static_cast<int>(std::floor(centre + reach - 0.5)), first, pixels - 1);
    const int count = std::min(last - first + 1, taps.most);
    float* weights =
        &taps.weights[static_cast<std::size_t>(i) * static_cast<std::size_t>(taps.most)];
    double sum = 0;
    for (int k = 0; k < count; ++k) {
      const double weight = std::max(0.0, 1.0 - std::abs(first + k + 0.5 - centre) / reach);
      weights[k] = static_cast<float>(weight);
      sum += weight;
    }
    if (sum <= 0) weights[0] = 1.0F;  // the box ends exactly between two pixels
    for (int k = 0; k < count && sum > 0; ++k) weights[k] /= static_cast<float>(sum);
    taps.first.push_back(first);
    taps.count.push_back(count);
  }
  return taps;
}

// Resamples one row of one channel to the wanted width.
void shrink_row(const std::uint8_t* row, std::ptrdiff_t stride, const Taps& taps,
                std::span<float> out) {
  for (std::size_t x = 0; x < out.size(); ++x) {
    const float* weights = &taps.weights[x * static_cast<std::size_t>(taps.most)];
    const std::uint8_t* from = row + taps.first[x] * stride;
    float sum = 0;
    for (int k = 0; k < taps.count[x]; ++k)
      sum += weights[k] * static_cast<float>(from[k * stride]);
    out[x] = sum;
  }
}

// Resamples one channel to the wanted size; values from 0 to 255.
void shrink_channel(const ImageView& image, int channel, const Taps& across, const Taps& down,
                    std::vector<float>& rows, std::span<float> out) {
  const std::size_t width = across.first.size();
  const int first_row = down.first.front();
  const int end_row = down.first.back() + down.count.back();
  rows.resize(static_cast<std::size_t>(end_row - first_row) * width);
  const std::uint8_t* pixels = image.pixels + channel * image.channel_stride;
  for (int y = first_row; y < end_row; ++y)
    shrink_row(pixels + y * image.row_stride, image.pixel_stride, across,
               std::span(rows).subspan(static_cast<std::size_t>(y - first_row) * width, width));
  for (std::size_t y = 0; y < down.first.size(); ++y) {
    const float* weights = &down.weights[y * static_cast<std::size_t>(down.most)];
    const std::span<float> to = out.subspan(y * width, width);
    std::fill(to.begin(), to.end(), 0.0F);
    for (int k = 0; k < down.count[y]; ++k) {
      const float* from = &rows[static_cast<std::size_t>(down.first[y] + k - first_row) * width];
      for (std::size_t x = 0; x < width; ++x) to[x] += weights[k] * from[x];
    }
  }
}

void scale_plane(std::span<float> plane, const PixelScale& scale, std::size_t channel) {
  const float factor = 1.0F / (255.0F * scale.deviation[channel]);
  const float shift = scale.mean[channel] / scale.deviation[channel];
  for (float& value : plane) value = value * factor - shift;
}

}  // namespace

Result<void> check_size(const ImageSize& size, const std::string& name, std::uint64_t offset) {
  const bool sides = size.height > 0 && size.width > 0 && size.height <= kMaxImageSide &&
                     size.width <= kMaxImageSide;
  if (sides && std::int64_t{size.height} * size.width <= kMaxImagePixels &&
      (size.channels == 1 || size.channels == 3)) {
    constexpr std::uint64_t kShareOfMemory = 8;
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(std::int64_t{size.height} * size.width * size.channels);
    if (bytes <= usable_memory_bytes() / kShareOfMemory) return {};
    return make_error(ErrorCode::kExhausted,
                      "{}: {} x {} pixels need {}, more than an eighth of the usable memory", name,
                      size.height, size.width, format_bytes(bytes));
  }
  return corrupt(name, offset,
                 fmt::format("sides from 1 to {}, at most {} pixels, 1 or 3 channels",
                             kMaxImageSide, kMaxImagePixels),
                 fmt::format("{} x {} with {} channels", size.height, size.width, size.channels));
}

ImageView view_of(const Image& image) {
  const std::ptrdiff_t channels = image.size.channels;
  return {.size = image.size,
          .pixels = image.pixels.data(),
          .channel_stride = 1,
          .row_stride = channels * image.size.width,
          .pixel_stride = channels};
}

ImageView planar_view(const ImageSize& size, const std::uint8_t* pixels) {
  return {.size = size,
          .pixels = pixels,
          .channel_stride = std::ptrdiff_t{size.height} * size.width,
          .row_stride = size.width,
          .pixel_stride = 1};
}

Box centre_box(const ImageSize& image, const ImageSize& wanted) {
  const double shrink =
      std::min(double(image.width) / wanted.width, double(image.height) / wanted.height);
  Box box{.width = wanted.width * shrink, .height = wanted.height * shrink};
  box.left = (image.width - box.width) / 2;
  box.top = (image.height - box.height) / 2;
  return box;
}

PixelScale plain_scale(int channels) {
  const auto count = static_cast<std::size_t>(channels);
  return {.mean = std::vector<float>(count, 0.0F), .deviation = std::vector<float>(count, 1.0F)};
}

PixelScale fit_scale(const PixelScale& scale, int channels) {
  const auto count = static_cast<std::size_t>(channels);
  if (scale.mean.size() == count) return scale;
  const auto average = [](const std::vector<float>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0F) / static_cast<float>(values.size());
  };
  return {.mean = std::vector<float>(count, average(scale.mean)),
          .deviation = std::vector<float>(count, average(scale.deviation))};
}

void resample(const ImageView& image, const Box& box, const ImageSize& wanted,
              const PixelScale& scale, bool flip, std::span<float> out) {
  const auto width = static_cast<std::size_t>(wanted.width);
  const std::size_t plane = width * static_cast<std::size_t>(wanted.height);
  TALLY_CHECK(out.size() == plane * static_cast<std::size_t>(wanted.channels));
  TALLY_CHECK(scale.mean.size() == static_cast<std::size_t>(wanted.channels));
  const Taps across = taps_for(box.left, box.width, wanted.width, image.size.width);
  const Taps down = taps_for(box.top, box.height, wanted.height, image.size.height);
  std::vector<float> rows;
  if (wanted.channels == 1 && image.size.channels == 3) {
    // Luminance of ITU-R BT.601, as in JPEG.
    constexpr std::array kLuminance{0.299F, 0.587F, 0.114F};
    std::vector<float> colour(plane);
    std::fill(out.begin(), out.end(), 0.0F);
    for (std::size_t c = 0; c < kLuminance.size(); ++c) {
      shrink_channel(image, static_cast<int>(c), across, down, rows, colour);
      for (std::size_t i = 0; i < plane; ++i) out[i] += kLuminance[c] * colour[i];
    }
  } else {
    for (int c = 0; c < wanted.channels; ++c) {
      const std::span<float> to = out.subspan(static_cast<std::size_t>(c) * plane, plane);
      if (c < image.size.channels) {
        shrink_channel(image, c, across, down, rows, to);
      } else {
        for (std::size_t i = 0; i < plane; ++i) to[i] = out[i];
      }
    }
  }
  // Scale last: a grey channel is copied to the other channels before it is scaled.
  for (std::size_t c = 0; c * plane < out.size(); ++c)
    scale_plane(out.subspan(c * plane, plane), scale, c);
  if (!flip) return;
  for (auto row = out.begin(); row != out.end(); row += wanted.width)
    std::reverse(row, row + wanted.width);
}

}  // namespace tally::data
