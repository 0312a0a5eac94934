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

// The shapes and types of a sample, equal for all samples of a dataset. An empty `target` is a
// scalar.
struct SampleShape {
  std::vector<std::int64_t> input;
  DataType input_type = DataType::kFloat32;
  std::vector<std::int64_t> target;
  DataType target_type = DataType::kInt64;
};

inline std::size_t bytes_of(const std::vector<std::int64_t>& shape, DataType type) {
  std::size_t bytes = size_of(type);
  for (const std::int64_t length : shape) bytes *= static_cast<std::size_t>(length);
  return bytes;
}
// Bytes of one sample.
inline std::size_t input_bytes(const SampleShape& s) { return bytes_of(s.input, s.input_type); }
inline std::size_t target_bytes(const SampleShape& s) { return bytes_of(s.target, s.target_type); }

struct Preprocessing;

// Random access to samples. Immutable. Threads: safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::uint64_t size() const = 0;
  virtual const SampleShape& shape() const = 0;
  // Writes sample `index` (below size()). `input` and `target` have exactly input_bytes() and
  // target_bytes(). `augment` is the random source for crops and flips; datasets without
  // augmentation ignore it. kCorrupt if the sample's file is damaged, kSystem if it cannot be read.
  virtual Result<void> read(std::uint64_t index, Rng& augment, std::span<std::byte> input,
                            std::span<std::byte> target) const = 0;
  // Class names by label; for texts the alphabet; empty if targets are not labels.
  virtual std::vector<std::string> classes() const { return {}; }
  // How files became these samples (preprocessing.h). Without an override it has shape and classes.
  virtual Preprocessing preprocessing() const;
};

}  // namespace tally::data
