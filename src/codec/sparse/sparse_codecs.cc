// Codecs that send some of a run's values exactly and leave out the rest; they differ in which
// values they select. sparse_bytes.h has the encodings, top_selection.h the selection by magnitude.
// A value that is not finite is always sent, so that receivers see it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "codec/families.h"
#include "codec/sparse/sparse_bytes.h"
#include "codec/sparse/top_selection.h"
#include "kernel/sparse/residual.h"

namespace tally::codec {
namespace {

using Indices = std::vector<std::uint32_t>;

class SparseCodec : public Codec {
 public:
  // The non-finite values alone may be all values.
  std::size_t max_bytes(std::size_t count) const final { return dense_bytes(count); }
  Result<void> read(std::span<const std::byte> bytes, const float* weight,
                    std::span<float> out) const final {
    return read_sparse(bytes, weight, out);
  }
};

// The values of largest magnitude.
class Topk final : public SparseCodec {
 public:
  Topk(double density, bool exact) : density_(density), exact_(exact) {}

  Traits traits() const override { return {.exact = density_ >= 1}; }
  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    const std::size_t wanted = entries_of(density_, values.size());
    return write_sparse(values, select_top(values, wanted, exact_ ? Top::kExact : Top::kAround),
                        out);
  }

 private:
  const double density_;
  const bool exact_;
};

// The bits of the smallest float that is not zero and not below `threshold`; at most those of
// infinity.
std::uint32_t least_bits(double threshold) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto least = static_cast<float>(std::min(threshold, double{kInfinity}));
  if (static_cast<double>(least) < threshold) least = std::nextafter(least, kInfinity);
  return std::clamp(std::bit_cast<std::uint32_t>(least), std::uint32_t{1}, kernel::kInfinityBits);
}

// The values of at least some magnitude.
class Threshold final : public SparseCodec {
 public:
  explicit Threshold(double threshold) : least_(least_bits(threshold)) {}

  Traits traits() const override { return {}; }
  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    return write_sparse(values, marked_indices(mark_above(values, least_)), out);
  }

 private:
  const std::uint32_t least_;
};

// The values at random indices, which are the same for all senders of a step and need not be sent.
// Each index has its turn once in count / entries steps (drawn_indices()). Independent draws would
// leave some values waiting for many times that, and their residuals would grow as long.
class RandomIndexCodec : public SparseCodec {
 public:
  explicit RandomIndexCodec(double density) : density_(density) {}

 protected:
  struct Drawn {
    Turn turn;
    Indices indices;
    bool has(const Indices& others) const {
      return std::includes(indices.begin(), indices.end(), others.begin(), others.end());
    }
  };
  Drawn draw_indices(std::size_t count, Draw draw) const {
    const auto number = static_cast<std::uint32_t>(draw.step);
    draw.rank = 0;
    draw.step = 0;
    const Turn turn{.key = key_of(draw), .number = number};
    return {turn, drawn_indices(turn, count, entries_of(density_, count))};
  }

  const double density_;
};

// With error feedback values are sent as they are. Without it they are scaled by count / entries,
// so that what is sent over a round of turns is the sum of what was given.
class Randk final : public RandomIndexCodec {
 public:
  Randk(double density, bool scaled) : RandomIndexCodec(density), scaled_(scaled) {}

  Traits traits() const override { return {.unbiased = scaled_, .exact = density_ >= 1}; }
  std::size_t encode(std::span<const float> values, const Draw& draw,
                     std::span<std::byte> out) const override {
    const Drawn drawn = draw_indices(values.size(), draw);
    const float factor = scaled_ && !drawn.indices.empty()
                             ? static_cast<float>(static_cast<double>(values.size()) /
                                                  static_cast<double>(drawn.indices.size()))
                             : 1.0F;
    const Indices nonfinite = marked_indices(mark_above(values, kernel::kInfinityBits));
    if (drawn.has(nonfinite)) return write_drawn(values, drawn.turn, drawn.indices, factor, out);
    Indices both;
    std::set_union(drawn.indices.begin(), drawn.indices.end(), nonfinite.begin(), nonfinite.end(),
                   std::back_inserter(both));
    return write_sparse(values, both, out);
  }

 private:
  const bool scaled_;
};

// All values that are not zero. The mean of encodings by Randk is zero outside the indices that all
// senders have drawn, unless a sender had a value that was not finite.
class RandkMean final : public RandomIndexCodec {
 public:
  using RandomIndexCodec::RandomIndexCodec;

  Traits traits() const override { return {.exact = true}; }
  std::size_t encode(std::span<const float> values, const Draw& draw,
                     std::span<std::byte> out) const override {
    const Drawn drawn = draw_indices(values.size(), draw);
    const Indices nonzero = marked_indices(mark_above(values, 1));
    if (drawn.has(nonzero)) return write_drawn(values, drawn.turn, drawn.indices, 1, out);
    return write_sparse(values, nonzero, out);
  }
};

// All values that are not zero. A negative zero may be decoded as zero.
class Nonzero final : public SparseCodec {
 public:
  Traits traits() const override { return {.exact = true}; }
  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    const Marks marks = mark_above(values, 1);
    // Each index takes a bit or more.
    const std::size_t least = kGapsHeader + 4 * marks.count + marks.count / 8;
    if (least >= dense_bytes(values.size())) return write_all(values, out);
    return write_sparse(values, marked_indices(marks), out);
  }
};

}  // namespace

std::unique_ptr<Codec> make_topk(double density, bool exact) {
  return std::make_unique<Topk>(density, exact);
}
std::unique_ptr<Codec> make_threshold(double threshold) {
  return std::make_unique<Threshold>(threshold);
}
std::unique_ptr<Codec> make_randk(double density, bool scaled) {
  return std::make_unique<Randk>(density, scaled);
}
std::unique_ptr<Codec> make_randk_mean(double density) {
  return std::make_unique<RandkMean>(density);
}
std::unique_ptr<Codec> make_nonzero() { return std::make_unique<Nonzero>(); }

}  // namespace tally::codec
