#include <cstring>

#include "base/check.h"
#include "codec/check_size.h"
#include "codec/families.h"
#include "kernel/quantize/quantize.h"

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

  Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    TALLY_TRY(check_size(bytes, out.size_bytes(), out.size()));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return {};
  }

  Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> sum) const override {
    TALLY_TRY(check_size(bytes, sum.size_bytes(), sum.size()));
    kernel::quantize_kernels().add_float32(bytes.data(), sum.size(), weight, sum.data());
    return {};
  }
};

}  // namespace

std::unique_ptr<Codec> make_plain() { return std::make_unique<Plain>(); }

}  // namespace tally::codec
