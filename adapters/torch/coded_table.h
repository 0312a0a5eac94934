#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adapters/torch/own_copy.h"
#include "codec/encoder/encoder.h"
#include "codec/lowrank/powersgd.h"
#include "plan/codec_spec.h"
#include "tally/server.h"

namespace tally::adapter {

// A parameter whose gradients go to its table encoded, and what this worker keeps of it from step
// to step: what encoders remember of each part, which is a run of the codec, and with update=bsp an
// own copy. What was encoded is as good as sent: if the push is dropped as too late it is lost like
// any other gradient, while what the encoding left out stays for the next. Threads: calls must not
// overlap.
class CodedTable final {
 public:
  struct Options {
    std::size_t parameter = 0;
    plan::CodecSpec spec;
    std::vector<std::int64_t> shape;  // of the parameter
    codec::SenderFacts sender;
    std::uint64_t seed = 1;
    std::uint64_t first_element = 0;  // of the model, that the parameter begins with
    int rank = 0;
    bool in_step = false;  // update=bsp
    OwnCopy::Options copy;
  };
  explicit CodedTable(const Options& options);

  const Options& options() const { return options_; }
  std::uint32_t parts() const { return static_cast<std::uint32_t>(copy_.parts()); }
  bool is_low_rank() const { return matrix_ != nullptr; }
  bool in_step() const { return options_.in_step; }

  // One message for each part; memory of a gradient that is under way.
  using Messages = std::vector<std::vector<std::byte>>;
  struct Step {
    std::uint64_t version = 0;  // of the push
    std::uint64_t clock = 0;
    double weight = 0;  // 0: messages are empty
    double rate = 0;
  };

  // Not of powersgd. `gradient` is the whole parameter's.
  void encode(std::uint32_t part, std::span<const float> gradient, const Step& step,
              std::vector<std::byte>& message);
  // Where averages of a part come to; not to be moved.
  std::span<server::Client::Average> averages(std::uint32_t first, std::uint32_t count) {
    return std::span(averages_).subspan(first, count);
  }
  // After they have: the own copy moves. Of parts whose values have come instead the state is read.
  Result<void> follow(server::Client& client, std::uint32_t first, std::uint32_t count,
                      const Step& step);

  // powersgd: two sums over all workers, each by weight; the second factor is made from the mean of
  // the first.
  codec::PowerSgd& matrix() { return *matrix_; }
  void project(std::span<const float> gradient, double weight, std::span<double> sum);
  void correlate(std::span<const double> sum, double total, double weight, std::span<double> next);
  // The message of each part, and the mean gradient.
  void finish(std::span<const double> sum, double total, double weight, std::span<float> mean,
              Messages& messages);
  void move(std::span<float> mean, const Step& step);

  // State as servers have it. Values have come from there.
  Result<void> read_state(server::Client& client);

  // What is remembered here, in the names of checkpoints; borrowed.
  struct State {
    std::string name;
    bool is_of_sender = true;
    std::uint64_t first = 0;  // element of the parameter
    std::span<float> values;
  };
  std::vector<State> states();

 private:
  codec::Draw draw_of(std::uint32_t part, const Step& step) const;
  Result<void> adopt(server::Client& client, std::uint32_t part);

  const Options options_;
  struct Ways {
    std::unique_ptr<codec::Codec> there;
    std::unique_ptr<codec::Codec> back;
  };
  std::vector<Ways> ways_;  // by part, or one for all; none of powersgd
  OwnCopy copy_;
  std::vector<std::unique_ptr<codec::Encoder>> encoders_;  // by part; none of powersgd
  std::unique_ptr<codec::PowerSgd> matrix_;                // powersgd
  std::vector<float> left_, right_;
  std::vector<server::Client::Average> averages_;  // by part
  std::vector<std::byte> room_;
  std::vector<float> scratch_;
};

}  // namespace tally::adapter
