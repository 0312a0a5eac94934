#include "exchange/group/slice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernel/array/norm.h"
#include "kernel/array/weighted_sum.h"
#include "kernel/reduce/copy.h"
#include "kernel/reduce/reduce.h"
#include "optimizer/update_rule.h"

// TypedSlice<T> cuts its range into pieces, one per parameter. Gradients are summed in T: double
// for float64 buckets, otherwise float. sum_and_update() handles kChunk elements at a time:
// weighted sum, clamp, optimizer, publish(). The separate steps do the same over the whole range,
// with squares() and sums over parameters in between.
//
// An update reads values and state of the present generation and writes them to the next one.
// beside() copies a chunk to the cache, lets the optimizer update it there in place, and writes the
// result with stores that bypass the cache, so that two generations cost no more memory traffic
// than one. Half types are updated in a master copy, which is one more array of state; publish()
// rounds it to the bucket's type. New values of slices that are `apart` go to outgoing_.
namespace tally::exchange {
namespace {

// The sum, the values and two arrays of state of a chunk fit into the first-level cache.
constexpr std::size_t kChunk = 1024;

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

std::size_t arrays_of(const Slice::Options& options, const std::vector<Piece>& pieces) {
  int arrays = 0;
  for (const Piece& piece : pieces)
    arrays = std::max(arrays, optimizer::state_arrays(
                                  options.optimizers[options.parameters[piece.parameter].group]));
  return static_cast<std::size_t>(arrays);
}

// Stores for other cores and for later. Short runs, and runs that do not begin at a cache line,
// are copied as usual.
template <typename T>
void store(T* into, const T* from, std::size_t count) {
  constexpr std::size_t kLine = 64;
  if (count * sizeof(T) >= 4 * kLine && reinterpret_cast<std::uintptr_t>(into) % kLine == 0) {
    kernel::copy_for_others(reinterpret_cast<std::byte*>(into),
                            reinterpret_cast<const std::byte*>(from), count * sizeof(T));
  } else {
    std::memcpy(into, from, count * sizeof(T));
  }
}

template <typename T>
class TypedSlice final : public Slice {
 public:
  explicit TypedSlice(const Options& options)
      : memory_(options.memory),
        bucket_(options.bucket),
        type_(options.memory.layout().buckets[options.bucket].type),
        range_(options.range),
        parameters_(options.parameters),
        optimizers_(options.optimizers),
        apart_(options.apart),
        is_half_(size_of(type_) < sizeof(T)),
        pieces_(pieces_of(options.memory.layout().buckets[options.bucket], options.range)),
        arrays_(arrays_of(options, pieces_)) {
    for (int generation = 0; generation < memory_.generations(); ++generation)
      for (std::size_t k = 0; k < arrays_ + (is_half_ ? 1 : 0); ++k)
        state_[static_cast<std::size_t>(generation)].push_back(
            reinterpret_cast<T*>(memory_.state(options.neighbour, bucket_, k, generation)));
    if (options.has_state) return;
    if (apart_ && !is_half_) outgoing_.resize(range_.count());
    adopt_values();
    for (const Piece& piece : pieces_) {
      const auto initial = static_cast<T>(optimizer::initial_state(optimizer(piece)));
      for (std::size_t k = 0; k < arrays_; ++k)
        std::fill_n(state(k, memory_.present()) + at(piece.range.begin), piece.range.count(),
                    initial);
    }
  }

  void sum_and_update(const BucketAccumulator& gradients, double divisor, double limit,
                      const UpdateFacts& facts) override {
    alignas(64) std::array<T, kChunk> chunk;
    auto sum_part = gradients.sum<T>(divisor);
    auto piece = pieces_.begin();
    for (std::size_t begin = range_.begin; begin < range_.end; begin += kChunk) {
      const Range part{begin, std::min(begin + kChunk, range_.end)};
      sum_part(part, chunk.data());
      if (limit > 0) kernel::clamp(chunk.data(), part.count(), static_cast<T>(limit));
      while (piece != pieces_.end() && piece->range.end <= part.begin) ++piece;
      for (auto other = piece; other != pieces_.end() && other->range.begin < part.end; ++other) {
        const Range common{std::max(other->range.begin, part.begin),
                           std::min(other->range.end, part.end)};
        update_part(*other, common, chunk.data() + (common.begin - part.begin), facts, {});
      }
      publish(part);
    }
  }

  void sum(const BucketAccumulator& gradients, double divisor) override {
    gradient_.resize(range_.count());
    gradients.sum<T>(divisor)(range_, gradient_.data());
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
      const auto spec = optimizer(piece);
      const auto step = step_of(piece, facts);
      beside(
          piece.range, own_gradient(piece), memory_.present(),
          [&](const optimizer::Segment<T>& segment) { optimizer::prepare(spec, step, segment); });
    }
  }

  void squares(std::span<Squares> cells) const override {
    const T* const values = values_of(memory_.present());
    for (const Piece& piece : pieces_) {
      std::size_t cell = piece.first_cell;
      for (std::size_t begin = piece.range.begin; begin < piece.range.end; ++cell) {
        const std::size_t end = std::min((begin / kBlock + 1) * kBlock, piece.range.end);
        cells[cell] = {
            .values = kernel::square_sum(std::span<const T>(values + at(begin), end - begin)),
            .gradient =
                kernel::square_sum(std::span<const T>(gradient_.data() + at(begin), end - begin))};
        begin = end;
      }
    }
  }

  void update(const UpdateFacts& facts, std::span<const Squares> of_parameters) override {
    for (const Piece& piece : pieces_)
      update_part(piece, piece.range, own_gradient(piece), facts, of_parameters);
    publish(range_);
  }

  std::span<const std::byte> outgoing() override {
    return is_half_ ? std::span<const std::byte>(narrow_) : std::as_bytes(std::span(outgoing_));
  }

  void adopt_values() override {
    if constexpr (std::is_same_v<T, float>)
      if (is_half_)
        kernel::kernels().widen(type_, values_at(memory_.present()),
                                state(arrays_, memory_.present()), range_.count());
  }

  std::vector<SliceState> states(Range part) override {
    std::vector<SliceState> states;
    const int present = memory_.present();
    for (const Piece& piece : pieces_) {
      const Range common{std::max(piece.range.begin, part.begin),
                         std::min(piece.range.end, part.end)};
      if (common.begin >= common.end) continue;
      SliceState state{.parameter = piece.parameter,
                       .first = piece.first_in_parameter + common.begin - piece.range.begin};
      state.values = {values_at(present) + (common.begin - range_.begin) * size_of(type_),
                      common.count() * size_of(type_)};
      const auto arrays = static_cast<std::size_t>(optimizer::state_arrays(optimizer(piece)));
      const auto add = [&](std::size_t k) {
        state.state.push_back(std::as_writable_bytes(
            std::span(this->state(k, present) + at(common.begin), common.count())));
      };
      for (std::size_t k = 0; k < arrays; ++k) add(k);
      if (is_half_) add(arrays_);
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

  // The slice's first element: in the bucket, in an array of state.
  std::byte* values_at(int generation) const {
    return memory_.values(bucket_, generation) + range_.begin * size_of(type_);
  }
  T* state(std::size_t array, int generation) const {
    return state_[static_cast<std::size_t>(generation)][array];
  }
  // The values that the optimizer computes with, and those that it writes.
  T* values_of(int generation) const {
    return is_half_ ? state(arrays_, generation) : reinterpret_cast<T*>(values_at(generation));
  }
  T* new_values() {
    if (apart_ && !is_half_) return outgoing_.data();
    return values_of(memory_.next());
  }
  T* own_gradient(const Piece& piece) { return gradient_.data() + at(piece.range.begin); }

  // Calls `update` for the elements `part` with the present values and the state of generation
  // `state_from`; the results become the next generation. An optimizer that is not to change
  // anything leaves them as they are.
  template <typename Update>
  void beside(Range part, T* gradient, int state_from, const Update& update) {
    const T* const values = values_of(memory_.present());
    T* const written = new_values();
    const int to = memory_.next();
    if (values == written && state_from == to) {
      optimizer::Segment<T> segment{.parameters = {written + at(part.begin), part.count()},
                                    .gradient = {gradient, gradient == nullptr ? 0 : part.count()}};
      for (std::size_t k = 0; k < arrays_; ++k)
        segment.state[k] = {state(k, to) + at(part.begin), part.count()};
      return update(segment);
    }
    alignas(64) std::array<std::array<T, kChunk>, 3> near;  // values, then arrays of state
    for (std::size_t begin = part.begin; begin < part.end; begin += kChunk) {
      const std::size_t count = std::min(kChunk, part.end - begin);
      const std::ptrdiff_t first = at(begin);
      std::memcpy(near[0].data(), values + first, count * sizeof(T));
      optimizer::Segment<T> segment{.parameters = {near[0].data(), count}, .gradient = {}};
      if (gradient != nullptr) segment.gradient = {gradient + (begin - part.begin), count};
      for (std::size_t k = 0; k < arrays_; ++k) {
        std::memcpy(near[k + 1].data(), state(k, state_from) + first, count * sizeof(T));
        segment.state[k] = {near[k + 1].data(), count};
      }
      update(segment);
      store(written + first, near[0].data(), count);
      for (std::size_t k = 0; k < arrays_; ++k)
        store(state(k, to) + first, near[k + 1].data(), count);
    }
  }

  void update_part(const Piece& piece, Range part, T* gradient, const UpdateFacts& facts,
                   std::span<const Squares> of_parameters) {
    if (facts.used[piece.parameter] == 0)
      return beside(part, nullptr, memory_.present(), [](const auto&) {});
    const OptimizerSpec& spec = optimizer(piece);
    const optimizer::StepFacts step = step_of(piece, facts);
    if (!optimizer::is_layerwise(spec))
      return beside(part, gradient, memory_.present(), [&](const optimizer::Segment<T>& segment) {
        optimizer::update(spec, step, segment);
      });
    const Squares& squares = of_parameters[piece.parameter];
    const optimizer::Norms norms{.parameters = std::sqrt(squares.values),
                                 .gradient = std::sqrt(squares.gradient)};
    // prepare() has written the state of the next generation.
    beside(part, gradient, memory_.next(),
           [&](const optimizer::Segment<T>& segment) { finish(spec, step, norms, segment); });
  }

  // Rounds the new master copy of half types, to the bucket or for outgoing().
  void publish(Range part) {
    if constexpr (std::is_same_v<T, float>) {
      if (!is_half_) return;
      const int to = memory_.next();
      if (apart_) narrow_.resize(range_.count() * size_of(type_));
      std::byte* const into = apart_ ? narrow_.data() : values_at(to);
      kernel::kernels().narrow(type_, state(arrays_, to) + at(part.begin),
                               into + static_cast<std::size_t>(at(part.begin)) * size_of(type_),
                               part.count());
    }
  }

  const ModelMemory& memory_;
  const std::size_t bucket_;
  const DataType type_;
  const Range range_;
  const std::vector<ParameterInfo>& parameters_;
  const std::vector<OptimizerSpec>& optimizers_;
  const bool apart_;
  const bool is_half_;
  const std::vector<Piece> pieces_;
  const std::size_t arrays_;              // of optimizer state; the master copy follows them
  std::array<std::vector<T*>, 2> state_;  // by generation, by array
  std::vector<T> outgoing_;
  std::vector<T> gradient_;
  std::vector<std::byte> narrow_;
};

}  // namespace

StateArrays Slice::needs(const Options& options) {
  const BucketLayout& bucket = options.memory.layout().buckets[options.bucket];
  const bool is_half = size_of(bucket.type) < sizeof(float);
  return {.count = options.range.count(),
          .arrays = arrays_of(options, pieces_of(bucket, options.range)) + (is_half ? 1 : 0),
          .element_bytes = bucket.type == DataType::kFloat64 ? sizeof(double) : sizeof(float)};
}

std::unique_ptr<Slice> Slice::make(const Options& options) {
  if (options.memory.layout().buckets[options.bucket].type == DataType::kFloat64)
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
