#include "exchange/device/host_low_rank.h"

#include <algorithm>
#include <span>

namespace tally::exchange {
namespace {

void scale(std::span<float> values, float factor) {
  for (float& value : values) value = factor * value;
}

class HostLowRank final : public DeviceLowRank {
 public:
  HostLowRank(const codec::PowerSgd::Options& options, bool feedback)
      : count_(options.rows * options.columns), feedback_(feedback), matrix_(options) {}

  int rank() const override { return matrix_.rank(); }
  std::size_t p_count() const override { return matrix_.p_count(); }
  std::size_t q_count() const override { return matrix_.q_count(); }

  Result<void> project(const float* gradient, float weight, float* p) override {
    const std::span<float> left(p, p_count());
    matrix_.project({gradient, count_}, left);
    scale(left, weight);
    return {};
  }
  Result<void> correlate(float* p, float share, float weight, float* q) override {
    const std::span<float> left(p, p_count()), right(q, q_count());
    scale(left, share);
    matrix_.correlate(left, right);
    scale(right, weight);
    return {};
  }
  Result<void> finish(const float* p, float* q, float share, float* mean) override {
    const std::span<float> right(q, q_count());
    scale(right, share);
    matrix_.finish({p, p_count()}, right, {mean, count_});
    const std::span<float> left_out = matrix_.residual();
    if (!feedback_) std::fill(left_out.begin(), left_out.end(), 0.0F);
    return {};
  }
  void give_up() override { matrix_.give_up(); }

  float* residual() override { return matrix_.residual().data(); }
  float* q() override { return matrix_.q().data(); }

 private:
  const std::size_t count_;
  const bool feedback_;
  codec::PowerSgd matrix_;
};

}  // namespace

std::unique_ptr<DeviceLowRank> host_low_rank(const codec::PowerSgd::Options& options,
                                             bool feedback) {
  return std::make_unique<HostLowRank>(options, feedback);
}

}  // namespace tally::exchange
