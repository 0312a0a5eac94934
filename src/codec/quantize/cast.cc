// Codecs without scales: float32 as it is, fp16 and bf16.
#include <cstring>

#include "base/check.h"
#include "codec/block_layout.h"
#include "codec/families.h"
#include "kernel/quantize/quantize.h"
#include "kernel/reduce/reduce.h"

namespace tally::codec {
namespace {

class Plain final : public Codec {
 public:
  Traits traits() const override { return {.unbiased = true, .fixed_size = true, .exact = true}; }
  std::size_t max_bytes(std::size_t count) const override { return count * sizeof(float); }

  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    TALLY_CHECK(out.size() >= values.size_bytes());
    if (!values.empty()) std::memcpy(out.data(), values.data(), values.size_bytes());
    return values.size_bytes();
  }
  Result<void> read(std::span<const std::byte> bytes, const float* weight,
                    std::span<float> out) const override {
    TALLY_TRY(check_size("float32", bytes, out.size_bytes(), out.size()));
    if (weight != nullptr) {
      kernel::quantize_kernels().add_float32(bytes.data(), out.size(), *weight, out.data());
    } else if (!out.empty()) {
      std::memcpy(out.data(), bytes.data(), bytes.size());
    }
    return {};
  }
};

// Two bytes per value. A magnitude of 65520 or more, which is beyond the range of fp16, becomes
// infinite.
class Cast final : public Codec {
 public:
  explicit Cast(DataType type) : type_(type) {}

  Traits traits() const override { return {.fixed_size = true}; }
  std::size_t max_bytes(std::size_t count) const override { return count * 2; }

  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    TALLY_CHECK(out.size() >= max_bytes(values.size()));
    kernel::kernels().narrow(type_, values.data(), out.data(), values.size());
    return max_bytes(values.size());
  }
  Result<void> read(std::span<const std::byte> bytes, const float* weight,
                    std::span<float> out) const override {
    TALLY_TRY(check_size(to_string(type_), bytes, max_bytes(out.size()), out.size()));
    if (weight == nullptr) {
      kernel::kernels().widen(type_, bytes.data(), out.data(), out.size());
    } else {
      const kernel::QuantizeKernels& loops = kernel::quantize_kernels();
      const auto add = type_ == DataType::kFloat16 ? loops.add_float16 : loops.add_bfloat16;
      add(bytes.data(), out.size(), *weight, out.data());
    }
    return {};
  }

 private:
  const DataType type_;
};

}  // namespace

std::unique_ptr<Codec> make_plain() { return std::make_unique<Plain>(); }

std::unique_ptr<Codec> make_cast(plan::Codec kind) {
  TALLY_CHECK(kind == plan::Codec::kFp16 || kind == plan::Codec::kBf16);
  return std::make_unique<Cast>(kind == plan::Codec::kFp16 ? DataType::kFloat16
                                                           : DataType::kBFloat16);
}

}  // namespace tally::codec
