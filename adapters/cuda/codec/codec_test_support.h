#pragma once
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adapters/cuda/codec/device_codec.h"
#include "adapters/cuda/cuda_device.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "codec/encoder/encoder.h"
#include "plan/codec_spec.h"

// Shared by the tests of codecs on the device: arrays there with guard bytes on both sides, and
// inputs.
namespace tally::cuda {

// The emulation of a GPU has fewer multiprocessors to fill, and takes much longer for a value:
// tests take fewer values there.
#ifdef TALLY_CUDA_EMULATED
inline constexpr bool kIsEmulated = true;
#else
inline constexpr bool kIsEmulated = false;
#endif
// Under a sanitizer a value takes ten times as long once more.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TALLY_SANITIZED_TEST
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(TALLY_SANITIZED_TEST)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
#undef TALLY_SANITIZED_TEST

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

// `count` elements on the device, `skipped` elements behind an address that is aligned to 256
// bytes.
template <typename T>
class DeviceArray final {
 public:
  explicit DeviceArray(std::size_t count, std::size_t skipped = 0)
      : count_(count), begin_(kGuard + skipped * sizeof(T)) {
    EXPECT_EQ(cudaMalloc(&memory_, bytes()), cudaSuccess);
    EXPECT_EQ(cudaMemset(memory_, kUntouched, bytes()), cudaSuccess);
  }
  DeviceArray(std::span<const T> values, std::size_t skipped = 0)
      : DeviceArray(values.size(), skipped) {
    write(values);
  }
  explicit DeviceArray(const std::vector<T>& values, std::size_t skipped = 0)
      : DeviceArray(std::span<const T>(values), skipped) {}
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  // Checks that nothing around the array was touched.
  ~DeviceArray() {
    std::vector<unsigned char> all(bytes());
    EXPECT_EQ(cudaMemcpy(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    std::size_t touched = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      if ((i < begin_ || i >= begin_ + count_ * sizeof(T)) && all[i] != kUntouched) ++touched;
    EXPECT_EQ(touched, 0U) << "bytes around an array of " << count_;
    cudaFree(memory_);
  }

  T* data() const { return reinterpret_cast<T*>(static_cast<std::byte*>(memory_) + begin_); }
  void write(std::span<const T> values) {
    if (values.empty()) return;
    EXPECT_EQ(cudaMemcpy(data(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  std::vector<T> read() const { return read(count_); }
  std::vector<T> read(std::size_t count) const {
    std::vector<T> values(count);
    if (count != 0) {
      EXPECT_EQ(cudaMemcpy(values.data(), data(), count * sizeof(T), cudaMemcpyDeviceToHost),
                cudaSuccess);
    }
    return values;
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kUntouched = 0xA5;
  std::size_t bytes() const { return begin_ + count_ * sizeof(T) + kGuard; }

  const std::size_t count_;
  const std::size_t begin_;
  void* memory_ = nullptr;
};

// The codecs of the device, with blocks that lie in the tiles of a warp and others.
inline std::vector<std::string> device_codec_texts() {
  return {"none",           "fp16",
          "bf16",           "int8",
          "int8:128",       "int8:512",
          "int8:16",        "int8:100",
          "int8:1024",      "fp8",
          "fp8:e5m2",       "fp8:e4m3,block=48",
          "onebit",         "onebit:256",
          "onebit:48",      "onebit:1024",
          "onebit:column",  "sign",
          "sign:512",       "sign:20",
          "sign:2048",      "topk",
          "topk:0.1,exact", "topk:0.5",
          "topk:1",         "topk:0.001,exact",
          "threshold:0.5",  "threshold:3",
          "threshold:1e-30"};
}

// The spec of a text as the device takes it: the caller does the rest.
inline plan::CodecSpec device_spec(const std::string& text, bool feedback) {
  auto spec = plan::parse_codec(text);
  if (!spec) {
    ADD_FAILURE() << text << ": " << spec.error().message;
    return {};
  }
  spec->feedback = feedback;
  spec->early_momentum = false;
  return *spec;
}

// Nearly normal: a sum of uniform numbers less its mean.
inline float normal_value(Rng& rng) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += rng.uniform();
  return static_cast<float>(sum);
}
inline Floats random_values(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  Floats values(count);
  for (float& value : values) value = normal_value(rng);
  return values;
}

// Inputs by name.
struct Input {
  std::string name;
  Floats values;
};
inline std::vector<Input> inputs(std::size_t count, std::uint64_t seed) {
  using Limits = std::numeric_limits<float>;
  Rng rng(seed);
  std::vector<Input> all = {{"normal values", random_values(count, seed)},
                            {"equal values", Floats(count, -0.37F)},
                            {"zeros", Floats(count)}};
  Floats denormals(count), large(count), mixed(count), clustered(count), not_finite(count);
  const float kinds[] = {0.0F,  -0.0F, 1.0F,          -1.0F,          0.25F,
                         -3.0F, 5e-4F, Limits::min(), -Limits::min(), Limits::denorm_min()};
  const float odd[] = {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()};
  for (std::size_t i = 0; i < count; ++i) {
    denormals[i] =
        static_cast<float>(static_cast<int>(rng.below(2001)) - 1000) * Limits::denorm_min();
    large[i] = (rng.below(3) == 0 ? -1 : 1) * Limits::max() * static_cast<float>(rng.uniform());
    mixed[i] = kinds[rng.below(10)];
    clustered[i] = i / 700 % 5 == 2 ? normal_value(rng) : 0.0F;
    not_finite[i] = rng.below(300) == 0 ? odd[rng.below(3)] : normal_value(rng);
  }
  all.push_back({"denormals", std::move(denormals)});
  all.push_back({"large values", std::move(large)});
  all.push_back({"zeros, ones and others", std::move(mixed)});
  all.push_back({"clustered values", std::move(clustered)});
  all.push_back({"values that are not finite", std::move(not_finite)});
  return all;
}

// Compares bit for bit; any NaN equals any other.
inline bool same_values(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      ADD_FAILURE() << "value " << i << " of " << a.size() << ": " << a[i] << " and " << b[i];
      return false;
    }
  }
  return true;
}

// The GPU of all tests of codecs, which are many and short.
inline CudaDevice& codec_gpu() {
  static CudaDevice* const gpu = [] {
    auto opened = CudaDevice::open(0);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened.value().release();
  }();
  return *gpu;
}

// A codec on the device beside that of the CPU.
struct CodecPair {
  plan::CodecSpec spec;
  codec::Shape shape;
  std::unique_ptr<codec::Codec> cpu;
  DeviceArray<std::uint32_t> damaged{std::vector<std::uint32_t>(1)};
  std::unique_ptr<exchange::DeviceCodec> device;

  CodecPair(const std::string& text, std::size_t most, bool feedback = false)
      : spec(device_spec(text, feedback)) {
    if (spec.by_column) shape = {.columns = 77, .first = 30};
    cpu = codec::make_codec(spec, shape);
    auto made = make_device_codec(spec, most, shape, damaged.data(), codec_gpu());
    if (made) {
      device = std::move(*made);
    } else {
      ADD_FAILURE() << text << ": " << made.error().message;
    }
  }
  CodecPair(const CodecPair&) = delete;
  CodecPair& operator=(const CodecPair&) = delete;

  Bytes encode_on_cpu(std::span<const float> values) const {
    Bytes bytes(cpu->max_bytes(values.size()));
    bytes.resize(cpu->encode(values, {}, bytes));
    return bytes;
  }
  // Whether all bytes decoded since the last call are encodings.
  bool were_encodings() {
    const bool none_damaged = damaged.read()[0] == 0;
    damaged.write(std::vector<std::uint32_t>(1));
    return none_damaged;
  }
  Bytes encoding(const DeviceArray<std::byte>& out) const {
    const auto size = device->encoded_bytes();
    EXPECT_TRUE(size) << size.error().message;
    return size ? out.read(*size) : Bytes();
  }
};

}  // namespace tally::cuda
