#include "adapters/torch/key_tensors.h"

namespace tally::adapter {
namespace {

at::Scalar signed_scalar(std::uint64_t bits) { return static_cast<std::int64_t>(bits); }

}  // namespace

at::Tensor shifted_right(const at::Tensor& bits, int count) {
  // libtorch's shift repeats the sign.
  return at::bitwise_and(at::bitwise_right_shift(bits, at::Scalar(count)),
                         signed_scalar(~std::uint64_t{0} >> count));
}

// SplitMix64, see base/rng.h. Products of int64 tensors wrap around.
at::Tensor next_of(const at::Tensor& states) {
  at::Tensor z = states + signed_scalar(0x9E3779B97F4A7C15ULL);
  z = at::bitwise_xor(z, shifted_right(z, 30)) * signed_scalar(0xBF58476D1CE4E5B9ULL);
  z = at::bitwise_xor(z, shifted_right(z, 27)) * signed_scalar(0x94D049BB133111EBULL);
  return at::bitwise_xor(z, shifted_right(z, 31));
}

at::Tensor mixed(const at::Tensor& a, const at::Tensor& b) {
  return next_of(at::bitwise_xor(next_of(a), b));
}

at::Tensor rows_of(const at::Tensor& keys, std::int64_t rows) {
  // The remainder of an unsigned number u = 2 h + l, with h below 2^63 and l of 0 and 1.
  const at::Tensor hash = next_of(keys);
  const at::Tensor half = at::remainder(shifted_right(hash, 1), rows);
  const at::Tensor hashed = at::remainder(half * 2 + at::bitwise_and(hash, 1), rows);
  return at::where(keys.lt(rows), keys, hashed);
}

}  // namespace tally::adapter
