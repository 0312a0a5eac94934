#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::bench::codecs {

// A tensor in the values of an Input.
struct Tensor {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t columns = 0;  // values per output; 0: no matrix
};

// Values to encode: consecutive tensors, as gradients in a bucket.
struct Input {
  std::string name;
  std::vector<float> values;
  std::vector<Tensor> tensors;
};

enum class Shape : std::uint8_t { kGaussian, kLaplace };

// Generates matrices of up to 2048 x 2048 values with mean 0 and deviation 0.0004, about `elements`
// in total, from the seed.
Input made_input(Shape shape, std::size_t elements, std::uint64_t seed);

// Reads the tensors of a file of `tally train --record-gradients` that codecs compress by default,
// repeated up to at least `elements` values. kInvalid if there are none; otherwise as
// read_float_tensors().
Result<Input> recorded_input(const std::filesystem::path& file, std::size_t elements);

// A piece of at most codec::kRunElements values inside one tensor.
using Run = Tensor;
std::vector<Run> runs_of(const Input& input);

}  // namespace tally::bench::codecs
