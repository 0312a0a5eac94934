#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/codec_spec.h"
#include "tally/error.h"

namespace tally::codec {

// Names the random numbers of one encoding: the same draw and element give the same number, on any
// machine and in any order.
struct Draw {
  std::uint64_t seed = 1;
  std::uint64_t step = 0;
  std::uint32_t rank = 0;   // of the sender
  std::uint64_t first = 0;  // which of the model's elements the first value is
};

// What is known of a codec without encoding anything.
struct Traits {
  bool unbiased = false;    // over all draws the mean of what is decoded is what was encoded
  bool fixed_size = false;  // encodings of equally many values have equally many bytes
  bool exact = false;       // what is decoded is what was encoded
};

// Turns a run of float32 values into bytes and back. Pure: the same call gives the same bytes on
// every machine and at every vector width. Not-a-number and infinities do not become numbers: at
// least the value itself, and at most its block, is decoded as not finite. Threads: safe.
class Codec {
 public:
  virtual ~Codec() = default;

  virtual Traits traits() const = 0;
  // Upper bound of what encode() writes for `count` values, and about how much it will be.
  virtual std::size_t max_bytes(std::size_t count) const = 0;
  virtual std::size_t expected_bytes(std::size_t count) const { return max_bytes(count); }

  // Encodes into `out`, which has max_bytes(values.size()) or more; returns the bytes used.
  virtual std::size_t encode(std::span<const float> values, const Draw& draw,
                             std::span<std::byte> out) const = 0;

  // out = what was encoded. kCorrupt, with `out` undefined, if `bytes` cannot be an encoding of
  // out.size() values. Bytes may lie at any address and may be anybody's: nothing outside them and
  // `out` is touched, and time and memory are bounded by both sizes.
  virtual Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const = 0;
  // sum += weight * what was encoded. Otherwise as decode().
  virtual Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                                  std::span<float> sum) const = 0;
};

// Of the tensor that a run of values is a part of.
struct Shape {
  // Values of one output of a weight matrix, which lie side by side; 0: no matrix.
  std::size_t columns = 0;
  std::size_t first = 0;  // which of those of its output the run's first value is
};

// The codec of a spec that passes check(): what senders use. For none, auto and powersgd: float32
// as it is (the latter's factors are powersgd.h's); dgc is topk at its final density (encoder.h has
// the rest), onebit-adam is sign.
std::unique_ptr<Codec> make_codec(const plan::CodecSpec& spec, const Shape& shape = {});

// How the mean of what was received goes back to all.
struct WayBack {
  std::unique_ptr<Codec> codec;
  bool feedback = false;  // the codec loses something: what it left out is added to the next mean
};
// Sparse codecs: all values that are not zero, exactly; of randk, if `draw` is that of the senders
// but for the rank, without places. sign,vote: votes, exactly. Others: the same codec again, with
// feedback if the spec has it.
WayBack make_way_back(const plan::CodecSpec& spec, const Shape& shape = {});

// What one sender gave for a run.
struct Encoded {
  std::span<const std::byte> bytes;
  double weight = 1;  // samples behind it; 0: bytes are not looked at
};
// The mean by weight of what several have encoded with make_codec(spec), in their order; sign,vote:
// the majority of signs, times the mean magnitude; a tie is zero. Zero where all weights are.
// kCorrupt as decode().
Result<void> mean_of(const plan::CodecSpec& spec, const Codec& codec,
                     std::span<const Encoded> senders, std::span<float> mean);
// The same of what was decoded.
void mean_of_decoded(const plan::CodecSpec& spec, std::span<const float* const> decoded,
                     std::span<const double> weights, std::span<float> mean);

// Values are compressed in runs of at most this many elements of one tensor, counted from its
// beginning, whatever the number of senders or servers: so every home gives the same result. Where
// several ranks of a host send together, runs are also cut where their shares of a bucket end, and
// blocks begin anew there.
inline constexpr std::size_t kRunElements = 65536;

// Whether a tensor of this shape is compressed: it has at least two dimensions and min_elements, or
// the spec says all.
bool is_compressed(const plan::CodecSpec& spec, std::span<const std::int64_t> shape);
// shape[0] outputs of so many values; 0 for fewer than two dimensions. Of the run that begins with
// that element of the tensor.
Shape shape_of(std::span<const std::int64_t> shape, std::uint64_t element = 0);
Shape shape_of(std::size_t columns, std::uint64_t element);
// Whether the codecs of a tensor's runs differ by where these begin.
bool differs_by_run(const plan::CodecSpec& spec);

}  // namespace tally::codec
