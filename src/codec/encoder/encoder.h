#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/codec.h"

namespace tally::codec {

// The part of the optimizer that some senders do themselves.
struct SenderFacts {
  double momentum = 0;  // of sgd, which is then applied without momentum
  bool nesterov = false;
  double beta1 = 0.9;  // onebit-adam
  int ranks = 1;       // dgc: local clipping is to clip / sqrt(ranks)
};

// Turns the gradients of one sender for one run into bytes, and keeps the sender's state between
// steps. During the warm-up gradients are sent as float32. With feedback the residual of the codec
// is added to the next gradient. dgc keeps momentum and unsent sums, and sends a share of them that
// falls during its warm-up. onebit-adam sends gradients during the warm-up, then momentum with
// feedback. Threads: calls must not overlap.
class Encoder {
 public:
  // `codec` is of the same spec and outlives the encoder.
  static std::unique_ptr<Encoder> make(const plan::CodecSpec& spec, const Codec& codec,
                                       std::size_t count, const SenderFacts& facts = {});
  virtual ~Encoder() = default;

  // The gradient has `count` values, `out` has max_bytes() bytes. draw.step counts from 0.
  virtual std::size_t max_bytes() const = 0;
  virtual std::size_t encode(std::span<const float> gradient, const Draw& draw,
                             std::span<std::byte> out) = 0;

  // The receiver has dropped the encoding `sent`, which this encoder has made after the warm-up:
  // its values are added to the residual, and so to the next gradient. No effect without a
  // residual.
  virtual void take_back(std::span<const std::byte> /*sent*/) {}

  // Tells the encoder the decoded mean of the step. Only onebit-adam uses it.
  virtual void observe_mean(std::span<const float> /*mean*/, const Draw& /*draw*/) {}

  // The state for checkpoints, `count` values each. The names are the same for all runs of a spec.
  struct State {
    std::string name;
    std::span<float> values;
  };
  virtual std::vector<State> states() = 0;
};

// The share of values that dgc sends in a step. In the quarters of the warm-up it is 0.25, 0.0625,
// 0.015625 and 0.004, but at least the spec's density; after the warm-up it is that density.
double dgc_density(const plan::CodecSpec& spec, std::uint64_t step);

// The names of Encoder::states() for this spec.
std::vector<std::string> state_names(const plan::CodecSpec& spec);

// Whether gradients and means of a step are plain float32: during the warm-up. dgc has another kind
// of warm-up.
bool is_plain_at(const plan::CodecSpec& spec, std::uint64_t step);
// The codec of a step: plain float32 during the warm-up, else `codec`.
const Codec& codec_at(const plan::CodecSpec& spec, const Codec& codec, std::uint64_t step);

}  // namespace tally::codec
