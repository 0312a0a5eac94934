// topk and threshold. The kernels are in sparse_encode.cu and sparse_decode.cu.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "adapters/cuda/codec/codec_families.h"
#include "adapters/cuda/codec/sparse_kernels.h"
#include "base/errors.h"
#include "codec/sparse/sparse_bytes.h"
#include "codec/sparse/top_selection.h"
#include "kernel/sparse/residual.h"

namespace tally::cuda {
namespace {

// As in codec/sparse/sparse_codecs.cc: the bits of the smallest float that is not zero and not
// below `threshold`; at most those of infinity.
std::uint32_t least_bits(double threshold) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto least = static_cast<float>(std::min(threshold, double{kInfinity}));
  if (static_cast<double>(least) < threshold) least = std::nextafter(least, kInfinity);
  return std::clamp(std::bit_cast<std::uint32_t>(least), std::uint32_t{1}, kernel::kInfinityBits);
}

// The sample of codec::select_top().
std::size_t stride_of(std::size_t count) {
  constexpr std::size_t kLeast = 256;
  return std::max<std::size_t>(1, count / std::max(kLeast, count / 100));
}
std::size_t samples_of(std::size_t count) {
  const std::size_t stride = stride_of(count);
  return (count + stride - 1) / stride;
}
// A sample of a shorter run may be larger, if its stride is smaller.
std::size_t most_samples(std::size_t most) { return std::min(most, 2 * most / 100 + 1024); }

class Sparse final : public exchange::DeviceCodec {
 public:
  Sparse(const plan::CodecSpec& spec, const CodecUse& use) : spec_(spec), use_(use) {}

  Result<void> prepare() {
    if (use_.most > 0xFFFFFFFFU)
      return invalid("codec={}: runs of {} values; the most are {}", plan::to_string(spec_),
                     use_.most, 0xFFFFFFFFU);
    const std::size_t words = (use_.most + 31) / 32;
    TALLY_TRY(marks_, use_.device.allocate(words * sizeof(std::uint32_t)));
    if (spec_.kind == plan::Codec::kTopk) {
      TALLY_TRY(sample_, use_.device.allocate(most_samples(use_.most) * sizeof(std::uint32_t)));
    }
    TALLY_TRY(encode_work_, use_.device.allocate(sizeof(SparseEncodeWork)));
    TALLY_TRY(decode_work_, use_.device.allocate(sizeof(SparseDecodeWork)));
    return {};
  }

  bool is_fixed_size() const override { return false; }
  std::size_t max_bytes(std::size_t count) const override { return codec::dense_bytes(count); }

  Result<void> encode(const float* gradient, std::size_t count, std::byte* out) override {
    return encode_run(gradient, nullptr, count, out);
  }
  Result<void> encode_with_feedback(const float* gradient, float* residual, std::size_t count,
                                    std::byte* out) override {
    return encode_run(gradient, residual, count, out);
  }
  Result<std::size_t> encoded_bytes() override {
    if (is_empty_) return codec::dense_bytes(0);
    std::uint64_t bytes = 0;
    TALLY_TRY(use_.device.read(std::as_writable_bytes(std::span(&bytes, 1)),
                               encode_work_.data + offsetof(SparseEncodeWork, bytes)));
    return static_cast<std::size_t>(bytes);
  }

 private:
  Result<void> encode_run(const float* gradient, float* residual, std::size_t count,
                          std::byte* out) {
    TALLY_TRY(check_run(count, use_.most));
    TALLY_TRY(check_alignment(out));
    is_empty_ = count == 0;
    if (is_empty_) return use_.device.clear(out, codec::dense_bytes(0));
    TALLY_TRY(use_.device.clear(encode_work_.data, SparseEncodeWork::kZeroBytes));
    SparseEncode task = {.gradient = gradient,
                         .residual = residual,
                         .count = static_cast<std::uint32_t>(count),
                         .out = out,
                         .marks = as<std::uint32_t>(marks_),
                         .sample = as<std::uint32_t>(sample_),
                         .work = as<SparseEncodeWork>(encode_work_)};
    if (spec_.kind == plan::Codec::kTopk) {
      set_selection(task);
    } else {
      task.threshold = least_bits(spec_.threshold);
    }
    TALLY_TRY(const unsigned blocks, sparse_encode_blocks(use_.device, count));
    return start_sparse_encode(task, blocks, use_.device);
  }

  // The numbers of codec::select_top().
  void set_selection(SparseEncode& task) const {
    const std::size_t count = task.count;
    const std::size_t wanted = codec::entries_of(spec_.density, count);
    const std::size_t samples = samples_of(count);
    const double above =
        static_cast<double>(samples) * static_cast<double>(wanted) / static_cast<double>(count);
    task.wanted = static_cast<std::uint32_t>(wanted);
    task.least = static_cast<std::uint32_t>(spec_.exact ? wanted : wanted - wanted / 5);
    task.most = static_cast<std::uint32_t>(
        std::min<std::size_t>(spec_.exact ? wanted : wanted + wanted * 3 / 10, 0xFFFFFFFFU));
    task.stride = static_cast<std::uint32_t>(stride_of(count));
    task.samples = static_cast<std::uint32_t>(samples);
    task.rank = static_cast<std::uint64_t>(std::ceil(above + std::sqrt(above))) + 1;
  }

  Result<void> read(Into into, std::span<const exchange::DeviceEncoded> senders, float* out,
                    std::size_t count) override {
    TALLY_TRY(check_run(count, use_.most));
    for (const exchange::DeviceEncoded& sender : senders) TALLY_TRY(check_alignment(sender.bytes));
    if (into != Into::kSum) TALLY_TRY(use_.device.clear(out, count * sizeof(float)));
    for (const exchange::DeviceEncoded& sender : senders) {
      const SparseDecode task = {.bytes = sender.bytes,
                                 // Nothing that is longer is an encoding, nor are no bytes.
                                 .size = sender.size <= max_bytes(count) ? sender.size : 0,
                                 .weight = sender.weight,
                                 .adds = into != Into::kValues,
                                 .out = out,
                                 .count = static_cast<std::uint32_t>(count),
                                 .work = as<SparseDecodeWork>(decode_work_),
                                 .damaged = use_.damaged};
      TALLY_TRY(const unsigned blocks, sparse_decode_blocks(use_.device, task.size));
      TALLY_TRY(start_sparse_decode(task, blocks, use_.device));
    }
    return {};
  }

  const plan::CodecSpec spec_;
  const CodecUse use_;
  exchange::DeviceMemory marks_, sample_, encode_work_, decode_work_;
  bool is_empty_ = true;  // the last encoding
};

}  // namespace

Result<std::unique_ptr<exchange::DeviceCodec>> make_sparse(const plan::CodecSpec& spec,
                                                           const CodecUse& use) {
  auto made = std::make_unique<Sparse>(spec, use);
  TALLY_TRY(made->prepare());
  return std::unique_ptr<exchange::DeviceCodec>(std::move(made));
}

}  // namespace tally::cuda
