#include "exchange/auto_codec/codec_trial.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "base/check.h"
#include "codec/encoder/encoder.h"
#include "codec/lowrank/powersgd.h"

namespace tally::exchange {
namespace {

// More senders would not change the result much.
constexpr int kMostSenders = 8;

class Trial {
 public:
  Trial(const TrialOptions& options, std::span<const float> values, const Clock& clock)
      : spec_(options.spec),
        clock_(clock),
        senders_(std::min(options.senders, kMostSenders)),
        seed_(options.seed),
        there_(codec::make_codec(spec_, options.shape)),
        back_(codec::make_broadcast_codec(spec_, options.shape)),
        values_(values.begin(), values.end()),
        mean_(values.size()),
        encodings_(static_cast<std::size_t>(senders_)) {
    for (int sender = 0; sender < senders_; ++sender)
      encoders_.push_back(codec::Encoder::make(spec_, *there_, values.size()));
  }

  TrialCosts run(std::uint64_t step) {
    TrialCosts costs{.fixed_size = there_->traits().fixed_size && back_.codec->traits().fixed_size};
    std::vector<codec::Encoded> encoded;
    for (int sender = 0; sender < senders_; ++sender) {
      const auto index = static_cast<std::size_t>(sender);
      const double seconds = encode(index, step);
      if (sender == 0) costs.seconds = seconds;
      encoded.push_back({.bytes = encodings_[index]});
      std::rotate(values_.begin(),
                  values_.begin() + static_cast<std::ptrdiff_t>(values_.size() / encodings_.size()),
                  values_.end());
    }
    costs.there_bytes = static_cast<double>(encodings_[0].size());
    const double share = 1.0 / senders_;
    std::vector<std::byte> answer(back_.codec->max_bytes(mean_.size()));
    costs.seconds +=
        share * timed([&] {
          TALLY_CHECK(codec::mean_of(spec_, *there_, encoded, mean_).has_value());
          answer.resize(back_.codec->encode(mean_, {.seed = seed_, .step = step}, answer));
        });
    costs.seconds += timed([&] { TALLY_CHECK(back_.codec->decode(answer, mean_).has_value()); });
    costs.back_bytes = static_cast<double>(answer.size());
    return costs;
  }

 private:
  template <typename Work>
  double timed(const Work& work) const {
    const TimePoint begin = clock_.now();
    work();
    return std::chrono::duration<double>(clock_.now() - begin).count();
  }

  double encode(std::size_t sender, std::uint64_t step) {
    codec::Encoder& encoder = *encoders_[sender];
    encodings_[sender].resize(encoder.max_bytes());
    return timed([&] {
      const codec::Draw draw{
          .seed = seed_, .step = step, .rank = static_cast<std::uint32_t>(sender)};
      encodings_[sender].resize(encoder.encode(values_, draw, encodings_[sender]));
    });
  }

  const plan::CodecSpec& spec_;
  const Clock& clock_;
  const int senders_;
  const std::uint64_t seed_;
  const std::unique_ptr<codec::Codec> there_;
  const codec::BroadcastCodec back_;
  std::vector<float> values_;
  std::vector<float> mean_;
  std::vector<std::unique_ptr<codec::Encoder>> encoders_;
  std::vector<std::vector<std::byte>> encodings_;
};

}  // namespace

TrialCosts try_codec(const TrialOptions& options, std::span<const float> values,
                     const Clock& clock) {
  TALLY_CHECK(!values.empty() && options.senders > 0);
  Trial trial(options, values, clock);
  TrialCosts costs = trial.run(0);
  const double first_seconds = costs.seconds;
  costs = trial.run(1);
  costs.seconds = std::min(costs.seconds, first_seconds);
  return costs;
}

TrialCosts try_powersgd(const MatrixTrial& trial, std::span<const float> values,
                        const Clock& clock) {
  TALLY_CHECK(values.size() == trial.rows * trial.columns);
  codec::PowerSgd matrix(
      {.rows = trial.rows, .columns = trial.columns, .rank = trial.rank, .seed = trial.seed});
  std::vector<float> p(matrix.p_count());
  std::vector<float> q(matrix.q_count());
  std::vector<float> mean(values.size());
  TrialCosts costs{.seconds = std::numeric_limits<double>::infinity(),
                   .there_bytes = static_cast<double>(p.size() * sizeof(float)),
                   .back_bytes = static_cast<double>(q.size() * sizeof(float)),
                   .fixed_size = true};
  for (int i = 0; i < 2; ++i) {
    const TimePoint begin = clock.now();
    matrix.project(values, p);
    matrix.correlate(p, q);
    matrix.finish(p, q, mean);
    costs.seconds =
        std::min(costs.seconds, std::chrono::duration<double>(clock.now() - begin).count());
  }
  return costs;
}

}  // namespace tally::exchange
