#include "adapters/cuda/codec/low_rank.h"

#include <algorithm>
#include <utility>

#include "adapters/cuda/codec/low_rank_kernels.h"
#include "base/errors.h"

namespace tally::cuda {
namespace {

class CudaLowRank final : public exchange::DeviceLowRank {
 public:
  CudaLowRank(const codec::PowerSgd::Options& options, bool feedback, const CodecStream& stream)
      : shape_{.rows = options.rows,
               .columns = options.columns,
               .rank = static_cast<int>(std::min(std::min(options.rows, options.columns),
                                                 static_cast<std::size_t>(options.rank)))},
        feedback_(feedback),
        stream_(stream),
        parts_(correlate_parts(shape_, stream)) {}

  Result<void> prepare(const codec::PowerSgd::Options& options) {
    TALLY_TRY(residual_.allocate(shape_.rows * shape_.columns * sizeof(float), stream_));
    TALLY_TRY(q_.allocate(q_count() * sizeof(float), stream_));
    TALLY_TRY(wide_.allocate(p_count() * sizeof(double), stream_));
    TALLY_TRY(sums_.allocate(parts_ * q_count() * sizeof(float), stream_));
    TALLY_TRY(largest_.allocate(2 * factor_columns() * sizeof(std::uint32_t), stream_));
    // The first Q depends on the seed, the columns and the rank; few rows save memory.
    codec::PowerSgd first({.rows = factor_columns(),
                           .columns = shape_.columns,
                           .rank = shape_.rank,
                           .seed = options.seed});
    TALLY_TRY(checked(cudaMemcpyAsync(q(), first.q().data(), first.q().size_bytes(),
                                      cudaMemcpyHostToDevice, stream_.get()),
                      "writing to the device"));
    return checked(cudaStreamSynchronize(stream_.get()), "waiting for the device");
  }

  int rank() const override { return shape_.rank; }
  std::size_t p_count() const override { return shape_.rows * factor_columns(); }
  std::size_t q_count() const override { return shape_.columns * factor_columns(); }

  Result<void> project(const float* gradient, float weight, float* p) override {
    if (has_sent_) return invalid("a gradient before the end of the last step");
    TALLY_TRY(stream_.enter());
    TALLY_TRY(start_project({.shape = shape_,
                             .gradient = gradient,
                             .matrix = residual(),
                             .right = q(),
                             .weight = weight,
                             .left = p},
                            stream_));
    has_sent_ = true;
    return {};
  }
  Result<void> correlate(float* p, float share, float weight, float* q) override {
    TALLY_TRY(stream_.enter());
    TALLY_TRY(start_orthonormalise(shape_, share, p, wide_.as<double>(), stream_));
    if (!has_sent_) return stream_.clear(q, q_count() * sizeof(float));
    return start_correlate({.shape = shape_,
                            .matrix = residual(),
                            .left = p,
                            .weight = weight,
                            .right = q,
                            .sums = sums_.as<float>(),
                            .parts = parts_},
                           stream_);
  }
  Result<void> finish(const float* p, float* q, float share, float* mean) override {
    TALLY_TRY(stream_.enter());
    return start_finish({.shape = shape_,
                         .left = p,
                         .right = q,
                         .share = share,
                         .matrix = residual(),
                         .has_sent = std::exchange(has_sent_, false),
                         .feedback = feedback_,
                         .mean = mean,
                         .q = this->q(),
                         .largest = largest_.as<std::uint32_t>()},
                        stream_);
  }
  void give_up() override { has_sent_ = false; }

  float* residual() override { return residual_.as<float>(); }
  float* q() override { return q_.as<float>(); }

 private:
  std::size_t factor_columns() const { return static_cast<std::size_t>(shape_.rank); }

  const MatrixShape shape_;
  const bool feedback_;
  const CodecStream stream_;
  const std::size_t parts_;
  bool has_sent_ = false;  // project() was called in this step
  CodecMemory residual_, q_, wide_, sums_, largest_;
};

}  // namespace

Result<std::unique_ptr<exchange::DeviceLowRank>> make_device_low_rank(
    const codec::PowerSgd::Options& options, bool feedback, const cudaStream_t& stream) {
  constexpr int kMostRank = 64;
  if (options.rows == 0 || options.columns == 0 || options.rank < 1 || options.rank > kMostRank)
    return invalid(
        "powersgd:{} for a matrix of {} x {}: need a rank of 1 to {} and no empty matrix",
        options.rank, options.rows, options.columns, kMostRank);
  TALLY_TRY(const CodecStream own, CodecStream::of(stream));
  auto made = std::make_unique<CudaLowRank>(options, feedback, own);
  TALLY_TRY(made->prepare(options));
  return std::unique_ptr<exchange::DeviceLowRank>(std::move(made));
}

}  // namespace tally::cuda
