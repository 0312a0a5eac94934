#include "bench/cuda/codec_cases.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/rng.h"
#include "bench/cuda/measure.h"
#include "codec/codec.h"
#include "codec/encoder/encoder.h"
#include "plan/codec_spec.h"

namespace tally::bench {
namespace {

constexpr std::size_t kCount = std::size_t{64} << 20;

struct CodecCase {
  const char* text;
  bool has_goal;
};
constexpr CodecCase kCases[] = {{"int8", true}, {"sign", true},    {"bf16", true},
                                {"fp8", false}, {"onebit", false}, {"topk:0.01", false}};

template <typename T>
bool same_bits(const std::vector<T>& a, const T* b, std::size_t count) {
  return a.size() == count && std::memcmp(a.data(), b, count * sizeof(T)) == 0;
}

// The arrays of all cases.
struct CodecArrays {
  std::vector<float> values;  // in host memory
  DeviceArray<float> gradient, residual, decoded;
  DeviceArray<std::byte> encoding;
  DeviceArray<std::uint32_t> damaged;

  Result<void> prepare() {
    Rng rng(1);
    values.resize(kCount);
    // The difference of two uniform numbers, of different size from block to block.
    for (std::size_t i = 0; i < kCount; ++i)
      values[i] = static_cast<float>((rng.uniform() - rng.uniform()) *
                                     static_cast<double>(1 + i / 4096 % 7));
    TALLY_TRY(gradient.allocate(kCount));
    TALLY_TRY(residual.allocate(kCount));
    TALLY_TRY(decoded.allocate(kCount));
    TALLY_TRY(encoding.allocate(4 * kCount + 16));
    TALLY_TRY(damaged.allocate(1));
    return checked(
        cudaMemcpy(gradient.data(), values.data(), kCount * sizeof(float), cudaMemcpyHostToDevice),
        "writing");
  }
};

class CodecRun final {
 public:
  CodecRun(cuda::CudaDevice& gpu, const CodecCase& of, double copy, CodecArrays& arrays)
      : gpu_(gpu), of_(of), copy_(copy), arrays_(arrays) {}

  Result<void> run() {
    TALLY_TRY(plan::CodecSpec spec, plan::parse_codec(of_.text));
    spec.feedback = true;
    spec.early_momentum = false;
    TALLY_TRY(device_, gpu_.make_codec(spec, kCount, {}, arrays_.damaged.data()));
    TALLY_TRY(check(spec));
    const double values = 4.0 * kCount, bytes = static_cast<double>(size_);
    TALLY_TRY(measure("encode", values + bytes, [this] {
      return device_->encode(arrays_.gradient.data(), kCount, arrays_.encoding.data());
    }));
    const exchange::DeviceEncoded sender{.bytes = arrays_.encoding.data(), .size = size_};
    TALLY_TRY(measure("decode", values + bytes,
                      [&] { return device_->decode(sender, arrays_.decoded.data(), kCount); }));
    return measure("encode with feedback", 3 * values + bytes, [this] {
      return device_->encode_with_feedback(arrays_.gradient.data(), arrays_.residual.data(), kCount,
                                           arrays_.encoding.data());
    });
  }

 private:
  // Compares the first encoding with feedback, whose bytes are those without, and its decoding.
  Result<void> check(const plan::CodecSpec& spec) {
    const auto codec = codec::make_codec(spec);
    const auto encoder = codec::Encoder::make(spec, *codec, kCount);
    std::vector<std::byte> expected(encoder->max_bytes());
    expected.resize(encoder->encode(arrays_.values, {}, expected));
    TALLY_TRY(
        checked(cudaMemset(arrays_.residual.data(), 0, kCount * sizeof(float)), "cudaMemset"));
    for (const bool feedback : {true, false}) {
      if (feedback) {
        TALLY_TRY(device_->encode_with_feedback(arrays_.gradient.data(), arrays_.residual.data(),
                                                kCount, arrays_.encoding.data()));
      } else {
        TALLY_TRY(device_->encode(arrays_.gradient.data(), kCount, arrays_.encoding.data()));
      }
      TALLY_TRY(size_, device_->encoded_bytes());
      if (size_ != expected.size()) return corrupt("{} bytes, expected {}", size_, expected.size());
      TALLY_TRY(const std::vector<std::byte> bytes, arrays_.encoding.read(size_));
      if (!same_bits(bytes, expected.data(), expected.size()))
        return corrupt("other bytes than the CPU's");
    }
    TALLY_TRY(const std::vector<float> left, arrays_.residual.read(kCount));
    if (!same_bits(left, encoder->states().front().values.data(), kCount))
      return corrupt("another residual than the CPU's");
    TALLY_TRY(device_->decode({.bytes = arrays_.encoding.data(), .size = size_},
                              arrays_.decoded.data(), kCount));
    TALLY_TRY(const std::vector<std::uint32_t> damaged, arrays_.damaged.read(1));
    if (damaged[0] != 0) return corrupt("an encoding that counts as damaged");
    TALLY_TRY(std::vector<float> decoded, arrays_.decoded.read(kCount));
    std::vector<float> wanted(kCount);
    TALLY_TRY(codec->decode(expected, wanted));
    if (!same_bits(decoded, wanted.data(), kCount))
      return corrupt("other decoded values than the CPU's");
    return {};
  }

  template <typename Call>
  Result<void> measure(const char* what, double bytes, const Call& call) {
    TALLY_TRY(const double seconds, seconds_of(call));
    print_line({.name = fmt::format("{}, {}", of_.text, what),
                .bytes = bytes,
                .seconds = seconds,
                .copy = copy_,
                .has_goal = of_.has_goal});
    return {};
  }

  cuda::CudaDevice& gpu_;
  const CodecCase& of_;
  const double copy_;  // bytes per second
  CodecArrays& arrays_;
  std::unique_ptr<exchange::DeviceCodec> device_;
  std::size_t size_ = 0;  // of an encoding
};

}  // namespace

bool run_codec_cases(cuda::CudaDevice& gpu, double copy_bytes_per_second) {
  CodecArrays arrays;
  if (const auto prepared = arrays.prepare(); !prepared) {
    fmt::print("failed: codecs: {}\n", prepared.error().message);
    return false;
  }
  bool is_right = true;
  for (const CodecCase& each : kCases) {
    const auto done = CodecRun(gpu, each, copy_bytes_per_second, arrays).run();
    if (done) continue;
    is_right = false;
    fmt::print("failed: {}: {}\n", each.text, done.error().message);
  }
  return is_right;
}

}  // namespace tally::bench
