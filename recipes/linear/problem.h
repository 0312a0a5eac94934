#pragma once
#include <cstdint>
#include <vector>

#include "data/dataset.h"
#include "data/preprocessing.h"
#include "tally/error.h"

namespace tally::recipes {

// A linear regression y = w·x + b + noise, drawn from `seed`. Sample i is the same in every
// process.
struct LinearSpec {
  std::int64_t features = 8;
  std::uint64_t seed = 1;
  double noise = 0.1;  // standard deviation
};

// Samples `first` to first + count of that problem, in memory.
class LinearSamples final : public data::Dataset {
 public:
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };
  LinearSamples(const LinearSpec& spec, const Range& range);

  std::uint64_t size() const override { return y_.size(); }
  const data::SampleShape& shape() const override { return shape_; }
  // Those of a table with the columns x0, x1, ... and y, whose numbers are used as they are.
  data::Preprocessing preprocessing() const override;
  Result<void> read(std::uint64_t index, Rng& augment, std::span<std::byte> input,
                    std::span<std::byte> target) const override;

 private:
  data::SampleShape shape_;
  std::vector<float> x_;  // in rows
  std::vector<float> y_;
};

// Returns the weights of least squared error over a dataset with float32 inputs and targets, and
// the intercept: the normal equations in double, solved by Cholesky factorisation. kInvalid if the
// samples do not determine them.
Result<std::vector<double>> least_squares(const data::Dataset& samples);

}  // namespace tally::recipes
