#include "data/scaled_targets.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace tally::data {
namespace {

class ScaledTargets final : public Dataset {
 public:
  ScaledTargets(std::unique_ptr<Dataset> dataset, const TargetScale& scale)
      : dataset_(std::move(dataset)), scale_(scale) {}

  std::uint64_t size() const override { return dataset_->size(); }
  const SampleShape& shape() const override { return dataset_->shape(); }
  std::vector<std::string> classes() const override { return dataset_->classes(); }
  Preprocessing preprocessing() const override {
    Preprocessing result = dataset_->preprocessing();
    result.target_scale = scale_;
    return result;
  }
  Result<void> read(std::uint64_t index, Rng& augment, std::span<std::byte> input,
                    std::span<std::byte> target) const override {
    TALLY_TRY(dataset_->read(index, augment, input, target));
    float value = 0;
    std::memcpy(&value, target.data(), sizeof value);
    value = static_cast<float>((value - scale_.mean) / scale_.deviation);
    std::memcpy(target.data(), &value, sizeof value);
    return {};
  }

 private:
  std::unique_ptr<Dataset> dataset_;
  TargetScale scale_;
};

bool has_number_targets(const Dataset& dataset) {
  return dataset.shape().target.empty() && dataset.shape().target_type == DataType::kFloat32;
}

}  // namespace

Result<TargetScale> measure_targets(const Dataset& dataset) {
  TALLY_CHECK(has_number_targets(dataset));
  std::vector<std::byte> input(input_bytes(dataset.shape()));
  double mean = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < dataset.size(); ++i) {
    Rng unused(1);
    float value = 0;
    TALLY_TRY(dataset.read(i, unused, input, std::as_writable_bytes(std::span(&value, 1))));
    // Running mean and squares (Welford 1962), which keep the precision of large values.
    const double step = value - mean;
    mean += step / static_cast<double>(i + 1);
    squares += step * (value - mean);
  }
  const double variance = dataset.size() > 0 ? squares / static_cast<double>(dataset.size()) : 0;
  return TargetScale{.mean = mean, .deviation = variance > 0 ? std::sqrt(variance) : 1};
}

std::unique_ptr<Dataset> scale_targets(std::unique_ptr<Dataset> dataset, const TargetScale& scale) {
  TALLY_CHECK(has_number_targets(*dataset));
  return std::make_unique<ScaledTargets>(std::move(dataset), scale);
}

}  // namespace tally::data
