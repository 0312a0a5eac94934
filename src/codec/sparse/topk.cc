#include "codec/families.h"
#include "codec/sparse/sparse_bytes.h"
#include "codec/sparse/top_selection.h"

namespace tally::codec {
namespace {

// The values of largest magnitude, as they are. What is not finite is always among them.
class Topk final : public Codec {
 public:
  Topk(double density, bool exact) : density_(density), exact_(exact) {}

  Traits traits() const override { return {.exact = density_ >= 1}; }
  // Non-finite values alone may be all of them.
  std::size_t max_bytes(std::size_t count) const override { return dense_bytes(count); }
  std::size_t expected_bytes(std::size_t count) const override {
    return expected_sparse_bytes(count, static_cast<double>(entries_of(density_, count)));
  }

  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    const std::size_t wanted = entries_of(density_, values.size());
    return write_sparse(values, select_top(values, wanted, exact_ ? Top::kExact : Top::kAround),
                        out);
  }
  Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    return read_sparse(bytes, out);
  }
  Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> sum) const override {
    return add_sparse(bytes, weight, sum);
  }

 private:
  const double density_;
  const bool exact_;
};

}  // namespace

std::unique_ptr<Codec> make_topk(double density, bool exact) {
  return std::make_unique<Topk>(density, exact);
}

}  // namespace tally::codec
