#include "bench/codec/input.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/errors.h"
#include "base/rng.h"
#include "checkpoint/tensor_file.h"
#include "codec/codec.h"

namespace tally::bench::codecs {
namespace {

constexpr std::size_t kMostSide = 2048;
constexpr double kDeviation = 0.0004;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{2} << 30;

// In (0, 1].
double positive(Rng& rng) { return 1 - rng.uniform(); }

double gaussian(Rng& rng) {
  const double length = std::sqrt(-2 * std::log(positive(rng)));
  return kDeviation * length * std::cos(2 * std::numbers::pi * rng.uniform());
}

double laplace(Rng& rng) {
  const double size = -std::log(positive(rng)) * kDeviation / std::numbers::sqrt2;
  return rng.below(2) == 0 ? size : -size;
}

}  // namespace

Input made_input(Shape shape, std::size_t elements, std::uint64_t seed) {
  const auto root = static_cast<std::size_t>(std::sqrt(static_cast<double>(elements)));
  const std::size_t side = std::clamp<std::size_t>(root, 1, kMostSide);
  const std::size_t matrix = side * side;
  const std::size_t matrices = std::max<std::size_t>(1, (elements + matrix / 2) / matrix);
  Input input{.name = shape == Shape::kGaussian ? "gaussian" : "laplace",
              .values = std::vector<float>(matrices * side * side),
              .tensors = {}};
  for (std::size_t i = 0; i < matrices; ++i)
    input.tensors.push_back({.first = i * side * side, .count = side * side, .columns = side});
  Rng rng(seed);
  for (float& value : input.values)
    value = static_cast<float>(shape == Shape::kGaussian ? gaussian(rng) : laplace(rng));
  return input;
}

Result<Input> recorded_input(const std::filesystem::path& file, std::size_t elements) {
  TALLY_TRY(const auto tensors, checkpoint::read_float_tensors(file, kMaxFileBytes));
  const plan::CodecSpec ordinary{
      .kind = plan::Codec::kInt8};  // for the default decision, which is the same for all codecs
  Input input{.name = file.stem().string(), .values = {}, .tensors = {}};
  do {
    for (const checkpoint::FloatTensor& tensor : tensors) {
      if (!codec::is_compressed(ordinary, tensor.shape)) continue;
      input.tensors.push_back({.first = input.values.size(),
                               .count = tensor.values.size(),
                               .columns = codec::shape_of(tensor.shape).columns});
      input.values.insert(input.values.end(), tensor.values.begin(), tensor.values.end());
    }
  } while (!input.values.empty() && input.values.size() < elements);
  if (!input.values.empty()) return input;
  return invalid("{}: no matrix of {} values or more in it", file.string(), ordinary.min_elements);
}

std::vector<Run> runs_of(const Input& input) {
  std::vector<Run> runs;
  for (const Tensor& tensor : input.tensors)
    for (std::size_t at = 0; at < tensor.count; at += codec::kRunElements)
      runs.push_back({.first = tensor.first + at,
                      .count = std::min(codec::kRunElements, tensor.count - at),
                      .columns = tensor.columns});
  return runs;
}

}  // namespace tally::bench::codecs
