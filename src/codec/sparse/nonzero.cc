#include "codec/families.h"
#include "codec/sparse/sparse_bytes.h"
#include "codec/sparse/top_selection.h"
#include "kernel/sparse/residual.h"

namespace tally::codec {
namespace {

// All values that are not zero, as they are. A negative zero may arrive as zero.
class Nonzero final : public Codec {
 public:
  Traits traits() const override { return {.exact = true}; }
  // Nothing is known of how many there will be.
  std::size_t max_bytes(std::size_t count) const override { return dense_bytes(count); }

  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    const Marks marks = mark_above(values, 1);
    // Each index takes a bit or more.
    const std::size_t least = kGapsHeader + 4 * marks.count + marks.count / 8;
    if (least >= dense_bytes(values.size())) return write_all(values, out);
    return write_sparse(values, marked_indices(marks), out);
  }
  Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    return read_sparse(bytes, out);
  }
  Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> sum) const override {
    return add_sparse(bytes, weight, sum);
  }
};

}  // namespace

std::unique_ptr<Codec> make_nonzero() { return std::make_unique<Nonzero>(); }

}  // namespace tally::codec
