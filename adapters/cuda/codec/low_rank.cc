#include "adapters/cuda/codec/low_rank.h"

#include <algorithm>
#include <utility>

#include "adapters/cuda/codec/codec_families.h"
#include "adapters/cuda/codec/low_rank_kernels.h"
#include "base/errors.h"

namespace tally::cuda {
namespace {

class CudaLowRank final : public exchange::DeviceLowRank {
 public:
  CudaLowRank(const codec::PowerSgd::Options& options, bool feedback, CudaDevice& device)
      : shape_{.rows = options.rows,
               .columns = options.columns,
               .rank = static_cast<int>(std::min(std::min(options.rows, options.columns),
                                                 static_cast<std::size_t>(options.rank)))},
        feedback_(feedback),
        device_(device),
        parts_(correlate_parts(shape_, device)) {}

  Result<void> prepare(const codec::PowerSgd::Options& options) {
    TALLY_TRY(residual_, device_.allocate(shape_.rows * shape_.columns * sizeof(float)));
    TALLY_TRY(q_, device_.allocate(q_count() * sizeof(float)));
    TALLY_TRY(wide_, device_.allocate(p_count() * sizeof(double)));
    TALLY_TRY(sums_, device_.allocate(parts_ * q_count() * sizeof(float)));
    TALLY_TRY(largest_, device_.allocate(2 * factor_columns() * sizeof(std::uint32_t)));
    // The first Q depends on the seed, the columns and the rank; few rows save memory.
    codec::PowerSgd first({.rows = factor_columns(),
                           .columns = shape_.columns,
                           .rank = shape_.rank,
                           .seed = options.seed});
    return device_.write(q_.data, std::as_bytes(first.q()));
  }

  int rank() const override { return shape_.rank; }
  std::size_t p_count() const override { return shape_.rows * factor_columns(); }
  std::size_t q_count() const override { return shape_.columns * factor_columns(); }

  Result<void> project(const float* gradient, float weight, float* p) override {
    if (has_sent_) return invalid("a gradient before the end of the last step");
    TALLY_TRY(start_project({.shape = shape_,
                             .gradient = gradient,
                             .matrix = residual(),
                             .right = q(),
                             .weight = weight,
                             .left = p},
                            device_));
    has_sent_ = true;
    return {};
  }
  Result<void> correlate(float* p, float share, float weight, float* q) override {
    TALLY_TRY(start_orthonormalise(shape_, share, p, as<double>(wide_), device_));
    if (!has_sent_) return device_.clear(q, q_count() * sizeof(float));
    return start_correlate({.shape = shape_,
                            .matrix = residual(),
                            .left = p,
                            .weight = weight,
                            .right = q,
                            .sums = as<float>(sums_),
                            .parts = parts_},
                           device_);
  }
  Result<void> finish(const float* p, float* q, float share, float* mean) override {
    return start_finish({.shape = shape_,
                         .left = p,
                         .right = q,
                         .share = share,
                         .matrix = residual(),
                         .has_sent = std::exchange(has_sent_, false),
                         .feedback = feedback_,
                         .mean = mean,
                         .q = this->q(),
                         .largest = as<std::uint32_t>(largest_)},
                        device_);
  }
  void give_up() override { has_sent_ = false; }

  float* residual() override { return as<float>(residual_); }
  float* q() override { return as<float>(q_); }

 private:
  std::size_t factor_columns() const { return static_cast<std::size_t>(shape_.rank); }

  const MatrixShape shape_;
  const bool feedback_;
  CudaDevice& device_;
  const std::size_t parts_;
  bool has_sent_ = false;  // project() was called in this step
  exchange::DeviceMemory residual_, q_, wide_, sums_, largest_;
};

}  // namespace

Result<std::unique_ptr<exchange::DeviceLowRank>> make_device_low_rank(
    const codec::PowerSgd::Options& options, bool feedback, CudaDevice& device) {
  constexpr int kMostRank = 64;
  if (options.rows == 0 || options.columns == 0 || options.rank < 1 || options.rank > kMostRank)
    return invalid(
        "powersgd:{} for a matrix of {} x {}: need a rank of 1 to {} and no empty matrix",
        options.rank, options.rows, options.columns, kMostRank);
  auto made = std::make_unique<CudaLowRank>(options, feedback, device);
  TALLY_TRY(made->prepare(options));
  return std::unique_ptr<exchange::DeviceLowRank>(std::move(made));
}

}  // namespace tally::cuda
