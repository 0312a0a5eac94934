#include <memory>

#include <fmt/format.h>

#include "base/errors.h"
#include "bench/codec/harness.h"
#include "codec/lowrank/powersgd.h"

namespace tally::bench::codecs {
namespace {

// One matrix with its factors, for a single rank.
struct Matrix {
  Tensor tensor;
  std::unique_ptr<codec::PowerSgd> codec;
  std::vector<float> p;
  std::vector<float> q;
};

class PowerSgdTrial final {
 public:
  PowerSgdTrial(const plan::CodecSpec& spec, const Input& input)
      : input_(input), decoded_(input.values.size()) {
    for (const Tensor& tensor : input.tensors) {
      auto codec = std::make_unique<codec::PowerSgd>(codec::PowerSgd::Options{
          .rows = tensor.count / tensor.columns, .columns = tensor.columns, .rank = spec.rank});
      std::vector<float> p(codec->p_count());
      std::vector<float> q(codec->q_count());
      factors_ += p.size() + q.size();
      matrices_.push_back({tensor, std::move(codec), std::move(p), std::move(q)});
    }
  }

  void encode() {
    for (Matrix& matrix : matrices_) {
      matrix.codec->project(
          std::span(input_.values).subspan(matrix.tensor.first, matrix.tensor.count), matrix.p);
      matrix.codec->correlate(matrix.p, matrix.q);
    }
  }
  void decode() {
    for (Matrix& matrix : matrices_)
      matrix.codec->finish(matrix.p, matrix.q,
                           std::span(decoded_).subspan(matrix.tensor.first, matrix.tensor.count));
  }
  std::span<float> decoded() { return decoded_; }
  double bytes_per_value() const {
    return static_cast<double>(factors_ * sizeof(float)) /
           static_cast<double>(input_.values.size());
  }

 private:
  const Input& input_;
  std::vector<Matrix> matrices_;
  std::vector<float> decoded_;
  std::size_t factors_ = 0;
};

}  // namespace

Result<Measurement> measure_powersgd(const plan::CodecSpec& spec, const Input& input, int repeats) {
  PowerSgdTrial trial(spec, input);
  trial.encode();
  trial.decode();
  Measurement result{.codec = plan::to_string(spec),
                     .input = input.name,
                     .elements = input.values.size(),
                     .bytes_per_value = trial.bytes_per_value(),
                     .error = relative_error(input.values, trial.decoded())};
  // A projection on orthonormal columns is not longer than its input, and neither is the remainder.
  if (!(result.error <= 1 + 1e-5))
    return corrupt(fmt::format("{} on {}: an error of {}", result.codec, input.name, result.error));
  std::vector<float> mean(trial.decoded().begin(), trial.decoded().end());
  for (int step = 1; step < kFeedbackSteps; ++step) {
    trial.encode();
    trial.decode();
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += trial.decoded()[i];
  }
  for (float& value : mean) value /= kFeedbackSteps;
  result.error_with_feedback = relative_error(input.values, mean);
  time_all(input, trial.decoded(), repeats,
           {{&Measurement::encode, [&] { trial.encode(); }},
            {&Measurement::decode, [&] { trial.decode(); }}},
           result);
  return result;
}

}  // namespace tally::bench::codecs
