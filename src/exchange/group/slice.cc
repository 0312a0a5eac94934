#include "exchange/group/slice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "kernel/array/norm.h"
#include "kernel/array/weighted_sum.h"
#include "kernel/reduce/reduce.h"
#include "optimizer/update_rule.h"

// TypedSlice<T> cuts its range into pieces, one per parameter. Gradients are summed in T: double
// for float64 buckets, otherwise float. sum_and_update() handles kChunk elements at a time:
// weighted sum, clamp, optimizer, publish(). The separate steps do the same over the whole range,
// with squares() and sums over parameters in between. Half types, and slices that are `apart`, are
// updated in the copy master_; publish() or outgoing() rounds it to the bucket's type.
namespace tally::exchange {
namespace {

// A chunk stays in the first-level cache between sum and update.
constexpr std::size_t kChunk = 4096;

// The intersection of a slice with one entry of its bucket.
struct Piece {
  std::size_t parameter = 0;
  Range range;  // in the bucket
  std::size_t first_in_parameter = 0;
  std::size_t first_cell = 0;
};

std::vector<Piece> pieces_of(const BucketLayout& bucket, Range slice) {
  std::vector<Piece> pieces;
  std::size_t cell = 0;
  for (const BucketLayout::Entry& entry : bucket.entries) {
    const Range common{std::max(entry.range.begin, slice.begin),
                       std::min(entry.range.end, slice.end)};
    if (common.begin < common.end) {
      pieces.push_back({.parameter = entry.parameter,
                        .range = common,
                        .first_in_parameter = common.begin - entry.range.begin,
                        .first_cell = cell + common.begin / kBlock - entry.range.begin / kBlock});
    }
    cell += Slice::cells_in(entry.range);
  }
  return pieces;
}

template <typename T>
class TypedSlice final : public Slice {
 public:
  explicit TypedSlice(const Options& options)
      : type_(options.bucket.type),
        range_(options.range),
        parameters_(options.parameters),
        optimizers_(options.optimizers),
        values_(options.values + options.range.begin * size_of(type_)),
        apart_(options.apart),
        pieces_(pieces_of(options.bucket, options.range)) {
    const bool is_half = size_of(type_) < sizeof(T);
    if (is_half || apart_) master_.resize(range_.count());
    adopt_values();
    std::size_t arrays = 0;
    for (const Piece& piece : pieces_)
      arrays =
          std::max(arrays, static_cast<std::size_t>(optimizer::state_arrays(optimizer(piece))));
    state_.resize(arrays, std::vector<T>(range_.count()));
    for (const Piece& piece : pieces_) {
      const auto initial = static_cast<T>(optimizer::initial_state(optimizer(piece)));
      for (std::vector<T>& array : state_)
        std::fill_n(array.begin() + at(piece.range.begin), piece.range.count(), initial);
    }
  }

  void sum_and_update(const Sources& sources, double limit, const UpdateFacts& facts) override {
    alignas(64) std::array<T, kChunk> chunk;
    auto piece = pieces_.begin();
    for (std::size_t begin = range_.begin; begin < range_.end; begin += kChunk) {
      const Range part{begin, std::min(begin + kChunk, range_.end)};
      sum_into(sources, part, chunk.data());
      if (limit > 0) kernel::clamp(chunk.data(), part.count(), static_cast<T>(limit));
      while (piece != pieces_.end() && piece->range.end <= part.begin) ++piece;
      for (auto other = piece; other != pieces_.end() && other->range.begin < part.end; ++other) {
        const Range common{std::max(other->range.begin, part.begin),
                           std::min(other->range.end, part.end)};
        if (facts.used[other->parameter] == 0) continue;
        optimizer::update(optimizer(*other), step_of(*other, facts),
                          segment(common, chunk.data() + (common.begin - part.begin)));
      }
      publish(part);
    }
  }

  void sum(const Sources& sources) override {
    gradient_.resize(range_.count());
    sum_into(sources, range_, gradient_.data());
  }
  std::span<std::byte> gradient() override {
    gradient_.resize(range_.count());
    return std::as_writable_bytes(std::span(gradient_));
  }
  void scale(double factor) override {
    kernel::scale(gradient_.data(), gradient_.size(), static_cast<T>(factor));
  }
  void clamp(double limit) override {
    kernel::clamp(gradient_.data(), gradient_.size(), static_cast<T>(limit));
  }

  void prepare(const UpdateFacts& facts) override {
    for (const Piece& piece : pieces_) {
      if (facts.used[piece.parameter] == 0) continue;
      optimizer::prepare(optimizer(piece), step_of(piece, facts), own_segment(piece));
    }
  }

  void squares(std::span<Squares> cells) const override {
    for (const Piece& piece : pieces_) {
      std::size_t cell = piece.first_cell;
      for (std::size_t begin = piece.range.begin; begin < piece.range.end; ++cell) {
        const std::size_t end = std::min((begin / kBlock + 1) * kBlock, piece.range.end);
        cells[cell] = {.values = kernel::square_sum(
                           std::span<const T>(work_values() + (begin - range_.begin), end - begin)),
                       .gradient = kernel::square_sum(std::span<const T>(
                           gradient_.data() + (begin - range_.begin), end - begin))};
        begin = end;
      }
    }
  }

  void update(const UpdateFacts& facts, std::span<const Squares> of_parameters) override {
    for (const Piece& piece : pieces_) {
      if (facts.used[piece.parameter] == 0) continue;
      const OptimizerSpec& spec = optimizer(piece);
      const optimizer::StepFacts step = step_of(piece, facts);
      if (optimizer::is_layerwise(spec)) {
        const Squares& squares = of_parameters[piece.parameter];
        finish(spec, step,
               optimizer::Norms{.parameters = std::sqrt(squares.values),
                                .gradient = std::sqrt(squares.gradient)},
               own_segment(piece));
      } else {
        optimizer::update(spec, step, own_segment(piece));
      }
    }
    publish(range_);
  }

  std::span<const std::byte> outgoing() override {
    if constexpr (std::is_same_v<T, float>) {
      if (type_ != DataType::kFloat32) {
        narrow_.resize(range_.count() * size_of(type_));
        kernel::kernels().narrow(type_, master_.data(), narrow_.data(), range_.count());
        return narrow_;
      }
    }
    return std::as_bytes(std::span(master_));
  }

  void adopt_values() override {
    if (master_.empty()) return;
    if constexpr (std::is_same_v<T, float>) {
      if (type_ != DataType::kFloat32) {
        kernel::kernels().widen(type_, values_, master_.data(), range_.count());
        return;
      }
    }
    std::memcpy(master_.data(), values_, range_.count() * sizeof(T));
  }

  std::vector<SliceState> states(Range part) override {
    std::vector<SliceState> states;
    for (const Piece& piece : pieces_) {
      const Range common{std::max(piece.range.begin, part.begin),
                         std::min(piece.range.end, part.end)};
      if (common.begin >= common.end) continue;
      const auto begin = common.begin - range_.begin;
      const std::size_t count = common.count();
      SliceState state{.parameter = piece.parameter,
                       .first = piece.first_in_parameter + common.begin - piece.range.begin};
      state.values = {values_ + begin * size_of(type_), count * size_of(type_)};
      const auto arrays = static_cast<std::size_t>(optimizer::state_arrays(optimizer(piece)));
      for (std::size_t k = 0; k < arrays; ++k)
        state.state.push_back(std::as_writable_bytes(std::span(state_[k]).subspan(begin, count)));
      if (size_of(type_) < sizeof(T))
        state.state.push_back(std::as_writable_bytes(std::span(master_).subspan(begin, count)));
      states.push_back(std::move(state));
    }
    return states;
  }

 private:
  const OptimizerSpec& optimizer(const Piece& piece) const {
    return optimizers_[parameters_[piece.parameter].group];
  }
  optimizer::StepFacts step_of(const Piece& piece, const UpdateFacts& facts) const {
    const bool freezes = optimizer(piece).freeze_after > 0;
    return {.step = (freezes ? facts.updates : facts.steps[piece.parameter]) + 1,
            .rate = facts.rates[parameters_[piece.parameter].group]};
  }
  std::ptrdiff_t at(std::size_t element) const {
    return static_cast<std::ptrdiff_t>(element - range_.begin);
  }
  // The values that the optimizer updates: the master copy, or the bucket itself.
  T* work_values() { return master_.empty() ? reinterpret_cast<T*>(values_) : master_.data(); }
  const T* work_values() const {
    return master_.empty() ? reinterpret_cast<const T*>(values_) : master_.data();
  }

  optimizer::Segment<T> segment(Range part, T* gradient) {
    optimizer::Segment<T> segment{.parameters = {work_values() + at(part.begin), part.count()},
                                  .gradient = {gradient, part.count()}};
    for (std::size_t k = 0; k < state_.size(); ++k)
      segment.state[k] = {state_[k].data() + at(part.begin), part.count()};
    return segment;
  }
  optimizer::Segment<T> own_segment(const Piece& piece) {
    return segment(piece.range, gradient_.data() + at(piece.range.begin));
  }

  void sum_into(const Sources& sources, Range part, T* out) {
    inputs_.clear();
    for (const void* const gradient : sources.gradients)
      inputs_.push_back(static_cast<const std::byte*>(gradient) +
                        (part.begin - range_.begin) * size_of(type_));
    weights_.assign(sources.weights.begin(), sources.weights.end());
    kernel::weighted_sum(type_, inputs_, std::span<const T>(weights_), out, part.count());
  }

  // Writes the rounded master copy of half types to the bucket.
  void publish(Range part) {
    if (apart_ || master_.empty()) return;
    if constexpr (std::is_same_v<T, float>) {
      kernel::kernels().narrow(type_, master_.data() + at(part.begin),
                               values_ + static_cast<std::size_t>(at(part.begin)) * size_of(type_),
                               part.count());
    }
  }

  const DataType type_;
  const Range range_;
  const std::vector<ParameterInfo>& parameters_;
  const std::vector<OptimizerSpec>& optimizers_;
  std::byte* const values_;  // at the slice's first element
  const bool apart_;
  const std::vector<Piece> pieces_;
  std::vector<T> master_;
  std::vector<std::vector<T>> state_;
  std::vector<T> gradient_;
  std::vector<std::byte> narrow_;
  std::vector<const void*> inputs_;
  std::vector<T> weights_;
};

}  // namespace

std::unique_ptr<Slice> Slice::make(const Options& options) {
  if (options.bucket.type == DataType::kFloat64)
    return std::make_unique<TypedSlice<double>>(options);
  return std::make_unique<TypedSlice<float>>(options);
}

std::size_t Slice::cells_in(Range entry) {
  return entry.empty() ? 0 : (entry.end - 1) / kBlock - entry.begin / kBlock + 1;
}

std::size_t Slice::cells_of(const BucketLayout& bucket) {
  std::size_t cells = 0;
  for (const BucketLayout::Entry& entry : bucket.entries) cells += cells_in(entry.range);
  return cells;
}

}  // namespace tally::exchange
