#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "codec/families.h"
#include "codec/sparse/sparse_bytes.h"
#include "codec/sparse/top_selection.h"
#include "kernel/sparse/residual.h"

namespace tally::codec {
namespace {

// The bits of the least float that is not zero and not below `threshold`; at most those of
// infinity.
std::uint32_t least_bits(double threshold) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto least = static_cast<float>(std::min(threshold, double{kInfinity}));
  if (static_cast<double>(least) < threshold) least = std::nextafter(least, kInfinity);
  return std::clamp(std::bit_cast<std::uint32_t>(least), std::uint32_t{1}, kernel::kInfinityBits);
}

// Values of at least some magnitude, as they are; what is not finite always.
class Threshold final : public Codec {
 public:
  explicit Threshold(double threshold) : least_(least_bits(threshold)) {}

  Traits traits() const override { return {}; }
  // Nothing is known of how many there will be.
  std::size_t max_bytes(std::size_t count) const override { return dense_bytes(count); }

  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    return write_sparse(values, marked_indices(mark_above(values, least_)), out);
  }
  Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    return read_sparse(bytes, out);
  }
  Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> sum) const override {
    return add_sparse(bytes, weight, sum);
  }

 private:
  const std::uint32_t least_;
};

}  // namespace

std::unique_ptr<Codec> make_threshold(double threshold) {
  return std::make_unique<Threshold>(threshold);
}

}  // namespace tally::codec
