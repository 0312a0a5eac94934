#include "codec/quantize/scaled_bytes.h"

#include "base/check.h"
#include "codec/check_size.h"

namespace tally::codec {

ScaledBytes::ScaledBytes(const kernel::ScaledBytes& loops, std::size_t block)
    : loops_(loops), block_(block) {
  TALLY_CHECK(block > 0);
}

std::size_t ScaledBytes::encode(std::span<const float> values, const Draw& /*draw*/,
                                std::span<std::byte> out) const {
  TALLY_CHECK(out.size() >= max_bytes(values.size()));
  std::byte* codes = out.data() + scale_bytes(values.size());
  loops_.encode(values.data(), values.size(), block_, out.data(), codes);
  return max_bytes(values.size());
}

Result<void> ScaledBytes::check_bytes(std::span<const std::byte> bytes, std::size_t count) const {
  TALLY_TRY(check_size(bytes, max_bytes(count), count));
  if (loops_.valid(bytes.data(), bytes.data() + scale_bytes(count), count, block_)) return {};
  return Error{.code = ErrorCode::kCorrupt,
               .message = "a scale or a byte that no encoding of numbers has"};
}

Result<void> ScaledBytes::decode(std::span<const std::byte> bytes, std::span<float> out) const {
  TALLY_TRY(check_bytes(bytes, out.size()));
  const std::byte* codes = bytes.data() + scale_bytes(out.size());
  loops_.decode(bytes.data(), codes, out.size(), block_, out.data());
  return {};
}

Result<void> ScaledBytes::decode_add(std::span<const std::byte> bytes, float weight,
                                     std::span<float> sum) const {
  TALLY_TRY(check_bytes(bytes, sum.size()));
  const std::byte* codes = bytes.data() + scale_bytes(sum.size());
  loops_.decode_add(bytes.data(), codes, sum.size(), block_, weight, sum.data());
  return {};
}

}  // namespace tally::codec
