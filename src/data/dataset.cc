#include "data/dataset.h"

namespace tally::data {
namespace {

std::size_t bytes_of(const std::vector<std::int64_t>& shape, DataType type) {
  std::size_t bytes = size_of(type);
  for (const std::int64_t length : shape) bytes *= static_cast<std::size_t>(length);
  return bytes;
}

}  // namespace

std::size_t input_bytes(const SampleShape& shape) {
  return bytes_of(shape.input, shape.input_type);
}

std::size_t target_bytes(const SampleShape& shape) {
  return bytes_of(shape.target, shape.target_type);
}

}  // namespace tally::data
