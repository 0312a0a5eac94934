#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/errors.h"
#include "base/mutex.h"
#include "kernel/reduce/reduce.h"
#include "tally/accumulator.h"

namespace tally::exchange {
namespace {

// An accumulator that sums by all-reduce.
class GroupAccumulator final : public Accumulator {
 public:
  explicit GroupAccumulator(const Options& options)
      : size_(options.size), hands_(static_cast<std::size_t>(options.hands)) {
    for (Hand& hand : hands_) hand.sum.assign(size_, 0.0F);
  }

  Result<void> move_to(Communicator& communicator) override {
    TALLY_TRY(own_, communicator.allocate(size_ * sizeof(float)));
    TALLY_TRY(all_, communicator.allocate(size_ * sizeof(float)));
    communicator_ = &communicator;
    return {};
  }

  Result<void> add(const Contribution& contribution) override {
    if (contribution.gradient.size() != size_) {
      return invalid(fmt::format("a gradient of {} values for a bucket of {}",
                                 contribution.gradient.size(), size_));
    }
    if (contribution.hand < 0 || static_cast<std::size_t>(contribution.hand) >= hands_.size())
      return invalid(fmt::format("hand {} of {}", contribution.hand, hands_.size()));
    if (contribution.version != version_) {
      return make_error(ErrorCode::kStale, "a gradient for version {}, the parameters have {}",
                        contribution.version, version_);
    }
    Hand& hand = hands_[static_cast<std::size_t>(contribution.hand)];
    const auto weight = static_cast<float>(contribution.samples);
    MutexLock lock(hand.mutex);
    for (std::size_t i = 0; i < size_; ++i) hand.sum[i] += weight * contribution.gradient[i];
    hand.samples += contribution.samples;
    return {};
  }

  Result<void> complete(const std::function<void(std::span<const float> average)>& apply,
                        const Call& call) override {
    const std::int64_t own_samples = sum_hands();
    std::int64_t samples = 0;
    TALLY_TRY(communicator_->allreduce(std::span<const std::int64_t>(&own_samples, 1),
                                       std::span<std::int64_t>(&samples, 1), ReduceOp::kSum, call));
    if (samples == 0) return invalid("no rank contributed any sample");
    TALLY_TRY(communicator_->allreduce(std::span<const float>(own_.as<float>()), all_.as<float>(),
                                       ReduceOp::kSum, call));
    const std::span<float> average = all_.as<float>();
    for (float& value : average) value /= static_cast<float>(samples);
    apply(average);
    for (Hand& hand : hands_) {
      std::fill(hand.sum.begin(), hand.sum.end(), 0.0F);
      hand.samples = 0;
    }
    ++version_;
    return {};
  }

  std::uint64_t version() const override { return version_; }

 private:
  struct Hand {
    Mutex mutex;
    std::vector<float> sum;  // of gradient times samples; add() holds the mutex
    std::uint64_t samples = 0;
  };

  // Does not change the hands, so that a failed complete() can be repeated.
  std::int64_t sum_hands() {
    const std::span<float> own = own_.as<float>();
    std::int64_t samples = 0;
    std::fill(own.begin(), own.end(), 0.0F);
    for (const Hand& hand : hands_) {
      kernel::kernels().combine(DataType::kFloat32, ReduceOp::kSum, own.data(), hand.sum.data(),
                                size_);
      samples += static_cast<std::int64_t>(hand.samples);
    }
    return samples;
  }

  const std::size_t size_;
  std::vector<Hand> hands_;
  Communicator* communicator_ = nullptr;
  SharedBuffer own_;  // this rank's sum
  SharedBuffer all_;  // the sum of all ranks
  std::uint64_t version_ = 0;
};

}  // namespace
}  // namespace tally::exchange

namespace tally {

Result<std::unique_ptr<Accumulator>> Accumulator::make(Communicator& communicator,
                                                       const Options& options) {
  if (options.hands < 1) return invalid("an accumulator needs at least one hand");
  auto accumulator = std::make_unique<exchange::GroupAccumulator>(options);
  TALLY_TRY(accumulator->move_to(communicator));
  return std::unique_ptr<Accumulator>(std::move(accumulator));
}

}  // namespace tally
