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
  std::size_t columns = 0;  // values of one output; 0: no matrix
};

// What is encoded: tensors behind each other, as gradients lie in a bucket.
struct Input {
  std::string name;
  std::vector<float> values;
  std::vector<Tensor> tensors;
};

enum class Shape : std::uint8_t { kGaussian, kLaplace };

// Matrices of up to 2048 x 2048 values around 0 with a deviation of 0.0004, about `elements` in
// all. By seed.
Input made_input(Shape shape, std::size_t elements, std::uint64_t seed);

// The tensors of a file of `tally train --record-gradients` that codecs would compress by default,
// again and again until there are at least `elements`. kInvalid if it has none; otherwise as
// read_float_tensors().
Result<Input> recorded_input(const std::filesystem::path& file, std::size_t elements);

// Pieces of at most codec::kRunElements, each inside one tensor.
struct Run {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t columns = 0;  // of its tensor
};
std::vector<Run> runs_of(const Input& input);

}  // namespace tally::bench::codecs
