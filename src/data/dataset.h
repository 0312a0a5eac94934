#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tally/error.h"
#include "tally/types.h"

namespace tally::data {

// What one sample is: the same for all samples of a dataset. An empty `target` is one number.
struct SampleShape {
  std::vector<std::int64_t> input;
  DataType input_type = DataType::kFloat32;
  std::vector<std::int64_t> target;
  DataType target_type = DataType::kInt64;
};

// Bytes of one sample.
std::size_t input_bytes(const SampleShape& shape);
std::size_t target_bytes(const SampleShape& shape);

// Samples by index. Immutable once made. Threads: safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::uint64_t size() const = 0;
  virtual const SampleShape& shape() const = 0;
  // Writes sample `index`, below size(), into exactly the bytes of one sample. `augment` decides
  // about random crops and flips; unused by those without. kCorrupt where the sample's file is bad,
  // kSystem where it cannot be read.
  virtual Result<void> read(std::uint64_t index, Rng& augment, std::span<std::byte> input,
                            std::span<std::byte> target) const = 0;
  // Names by label; of texts the alphabet; empty where targets are not labels.
  virtual std::vector<std::string> classes() const { return {}; }
};

}  // namespace tally::data
