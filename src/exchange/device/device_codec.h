#pragma once
#include <cstddef>
#include <span>

#include "tally/error.h"

namespace tally::exchange {

// One sender's encoding on the device. `bytes` is aligned to 16 bytes. `size` comes from a peer and
// need not be trusted.
struct DeviceEncoded {
  const std::byte* bytes = nullptr;
  std::size_t size = 0;
  float weight = 1;
};

// A gradient codec whose loops run on a device; Device::make_codec() makes it for none, fp16, bf16,
// int8, fp8, onebit, sign, topk and threshold. Its bytes, residuals and decoded values equal those
// of codec::make_codec() and codec::Encoder for one run of the same length, bit for bit, except for
// the sign and payload of decoded NaNs and of NaNs in sums. Runs have any length, not only
// codec::kRunElements. The spec's warm-up, momentum, feedback and way back are the caller's: a
// warm-up uses the codec of kind kNone.
//
// Pointers are to memory of the device. Floats are aligned to 4 bytes; addresses that are multiples
// of 16 are faster. Encodings are aligned to 16 bytes. Nothing overlaps.
//
// Calls enqueue their work like those of the Device, and return before it is done, unless stated
// otherwise. Threads: calls must not overlap.
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;

  // Whether encodings of `count` values always have max_bytes(count) bytes. Not for topk and
  // threshold.
  virtual bool is_fixed_size() const = 0;
  // The largest size of an encoding of `count` values.
  virtual std::size_t max_bytes(std::size_t count) const = 0;

  // `out` has max_bytes(count).
  virtual Result<void> encode(const float* gradient, std::size_t count, std::byte* out) = 0;
  // Encodes residual + gradient and keeps in `residual` what the encoding leaves out, as
  // codec::Encoder with feedback and without early momentum. `residual` begins with zeros.
  virtual Result<void> encode_with_feedback(const float* gradient, float* residual,
                                            std::size_t count, std::byte* out) = 0;
  // The size of the last encoding. Waits for it unless is_fixed_size().
  virtual Result<std::size_t> encoded_bytes() = 0;

  // Decoding. kCorrupt, without any work, if the size is wrong for a codec of fixed size. The bytes
  // need not be trusted: nothing outside of them and the floats is touched. Where no encoder writes
  // them, by the rules of codec::Codec::decode(), the word `damaged` of make_codec() becomes 1, and
  // the floats are undefined, except that topk and threshold leave a sum untouched, and write
  // zeros.
  //
  // out = decoded values.
  Result<void> decode(const DeviceEncoded& from, float* out, std::size_t count) {
    return read(Into::kValues, {&from, 1}, out, count);
  }
  // sum += weight * decoded values, each product rounded.
  Result<void> decode_add(const DeviceEncoded& from, float* sum, std::size_t count) {
    return read(Into::kSum, {&from, 1}, sum, count);
  }
  // mean = 0 + weight * decoded values of the first sender + ..., in the order of the senders. With
  // their shares of the total weight it is codec::mean_of(), which leaves out senders with a share
  // of 0. Faster than decode_add() for each sender.
  Result<void> decode_mean(std::span<const DeviceEncoded> senders, float* mean, std::size_t count) {
    return read(Into::kMean, senders, mean, count);
  }

 protected:
  enum class Into { kValues, kSum, kMean };

 private:
  virtual Result<void> read(Into into, std::span<const DeviceEncoded> senders, float* out,
                            std::size_t count) = 0;
};

}  // namespace tally::exchange
