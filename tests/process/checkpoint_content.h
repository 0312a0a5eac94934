#pragma once
// The values that checkpoint_worker saves: element i of tensor number t at step s is
// s + t * 1000 + i % 1024 / 1024.
#include <cstdint>
#include <string>
#include <vector>

#include "tally/checkpoint.h"

namespace tally::process {

inline float value_at(std::uint64_t step, std::size_t tensor, std::uint64_t element) {
  return static_cast<float>(step) + static_cast<float>(tensor) * 1000 +
         static_cast<float>(element % 1024) / 1024;
}

inline std::vector<checkpoint::TensorInfo> model_tensors(std::int64_t rows) {
  return {{"fc.weight", DataType::kFloat32, {rows, 64}}, {"fc.bias", DataType::kFloat32, {rows}}};
}
inline std::vector<checkpoint::TensorInfo> optimizer_tensors(std::int64_t rows) {
  return {{"fc.weight/momentum", DataType::kFloat32, {rows, 64}}};
}

inline std::uint64_t elements_of(const checkpoint::TensorInfo& tensor) {
  std::uint64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::uint64_t>(size);
  return count;
}

}  // namespace tally::process
