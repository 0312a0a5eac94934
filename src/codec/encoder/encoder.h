#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/codec.h"

namespace tally::codec {

// What of the optimizer some senders do themselves.
struct SenderFacts {
  double momentum = 0;  // dgc: of sgd, which is then applied without
  bool nesterov = false;
  double beta1 = 0.9;  // onebit-adam
  int ranks = 1;       // dgc: local clipping is to clip / sqrt(ranks)
};

// What one sender keeps of one run of values between steps, and how it turns gradients into bytes.
// feedback: what the codec left out is added to the next gradient. dgc: momentum and what was not
// sent, which a share of, falling with the steps, is sent. onebit-adam: raw gradients first, then
// momentum with feedback. Threads: calls must not overlap.
class Encoder {
 public:
  // `codec` outlives it and is of the same spec.
  static std::unique_ptr<Encoder> make(const plan::CodecSpec& spec, const Codec& codec,
                                       std::size_t count, const SenderFacts& facts = {});
  virtual ~Encoder() = default;

  // The gradient has `count` values, `out` max_bytes() of them. draw.step counts from 0.
  virtual std::size_t max_bytes() const = 0;
  virtual std::size_t encode(std::span<const float> gradient, const Draw& draw,
                             std::span<std::byte> out) = 0;

  // onebit-adam: what came of the step, on all ranks. Others do not look at it.
  virtual void took(std::span<const float> mean, const Draw& draw) = 0;

  // Its memory, `count` values each, for checkpoints; the names are the same for all runs of a
  // spec.
  struct State {
    std::string name;
    std::span<float> values;
  };
  virtual std::vector<State> states() = 0;
};

// Names of Encoder::states() for this spec.
std::vector<std::string> state_names(const plan::CodecSpec& spec);

// One step's codec where it changes with the steps: float32 as it is while onebit-adam warms up,
// else `codec`.
const Codec& codec_at(const plan::CodecSpec& spec, const Codec& codec, std::uint64_t step);

}  // namespace tally::codec
