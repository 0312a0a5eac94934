#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "plan/codec_spec.h"
#include "tally/error.h"

namespace tally::codec {

// Identifies the random numbers of one encoding: the same draw and element give the same number on
// any machine and in any order.
struct Draw {
  std::uint64_t seed = 1;
  std::uint64_t step = 0;
  std::uint32_t rank = 0;   // of the sender
  std::uint64_t first = 0;  // index of the first value among the model's elements
};

// Properties of a codec that hold for all inputs.
struct Traits {
  bool unbiased = false;    // the mean of the decoded value over all draws is the encoded value
  bool fixed_size = false;  // encodings of equally many values have equally many bytes
  bool exact = false;       // the decoded value is the encoded value
};

// Turns a run of float32 values into bytes and back. A codec is pure: the same call gives the same
// bytes on every machine and at every vector width. NaN and infinities do not become finite: at
// least the value itself, and at most its block, is decoded as not finite. Threads: safe.
class Codec {
 public:
  virtual ~Codec() = default;

  virtual Traits traits() const = 0;
  // The largest size of an encoding of `count` values.
  virtual std::size_t max_bytes(std::size_t count) const = 0;

  // Encodes into `out`, which has max_bytes(values.size()) or more; returns the bytes used.
  virtual std::size_t encode(std::span<const float> values, const Draw& draw,
                             std::span<std::byte> out) const = 0;

  // Writes the decoded values to `out`. kCorrupt, with `out` undefined, if `bytes` cannot be an
  // encoding of out.size() values. The bytes may lie at any address and need not be trusted:
  // nothing outside them and `out` is touched, and time and memory are bounded by both sizes.
  Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const {
    return read(bytes, nullptr, out);
  }
  // sum += weight * decoded value. Otherwise as decode().
  Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> sum) const {
    return read(bytes, &weight, sum);
  }
  // decode_add() with a weight, decode() without.
  virtual Result<void> read(std::span<const std::byte> bytes, const float* weight,
                            std::span<float> out) const = 0;
};

// The position of a run in its tensor.
struct Shape {
  std::size_t columns = 0;  // of the weight matrix; 0: no matrix
  std::size_t first = 0;    // column of the run's first value
};

// The codec that senders use, for a spec that passes check(). none, auto and powersgd give plain
// float32 (powersgd.h makes the factors), dgc gives topk at its final density and onebit-adam gives
// sign (encoder.h has the rest of both).
std::unique_ptr<Codec> make_codec(const plan::CodecSpec& spec, const Shape& shape = {});

// `back` as a spec: the codec of the mean, by make_codec(). None for sparse codecs and votes, whose
// means have codecs of their own.
std::optional<plan::CodecSpec> broadcast_spec(const plan::CodecSpec& spec);

// The codec of the mean, which is broadcast to all workers.
struct BroadcastCodec {
  std::unique_ptr<Codec> codec;
  bool feedback = false;  // the residual of one mean is added to the next
};
// Sparse codecs send all values of the mean that are not zero, exactly; randk sends them without
// indices if `draw` equals that of the senders except for the rank. sign,vote sends the majority,
// exactly. The other codecs encode the mean by `back`: as int8 with feedback, as bf16, or as they
// encode gradients, with feedback if the spec has it.
BroadcastCodec make_broadcast_codec(const plan::CodecSpec& spec, const Shape& shape = {});

// One sender's encoding of a run.
struct Encoded {
  std::span<const std::byte> bytes;
  double weight = 1;  // number of samples; 0: the bytes are not read
};
// The weighted mean of several encodings by make_codec(spec), added in their order. With sign,vote
// it is the majority of signs times the mean magnitude, and zero for a tie. The mean is zero where
// all weights are zero. kCorrupt as decode().
Result<void> mean_of(const plan::CodecSpec& spec, const Codec& codec,
                     std::span<const Encoded> senders, std::span<float> mean);
// The same mean of decoded values.
void mean_of_decoded(const plan::CodecSpec& spec, std::span<const float* const> decoded,
                     std::span<const double> weights, std::span<float> mean);

// Values are compressed in runs of at most this many elements, counted from the beginning of the
// tensor. The runs do not depend on the number of senders or servers, so the group and the servers
// give the same result. Where several ranks of a host send together, runs also end where their
// slices of a bucket end.
inline constexpr std::size_t kRunElements = 65536;

// Whether a tensor of this shape is compressed: it has at least two dimensions and min_elements
// elements, or the spec has `all`.
bool is_compressed(const plan::CodecSpec& spec, std::span<const std::int64_t> shape);
// The Shape of the run that begins at `element` of a tensor with these dimensions; a tensor of
// fewer than two dimensions is no matrix.
Shape shape_of(std::span<const std::int64_t> shape, std::uint64_t element = 0);
Shape shape_of(std::size_t columns, std::uint64_t element);
// Whether the codec of a run depends on where in its tensor the run begins: of gradients, and of
// means.
bool differs_by_run(const plan::CodecSpec& spec);
bool mean_differs_by_run(const plan::CodecSpec& spec);

}  // namespace tally::codec
