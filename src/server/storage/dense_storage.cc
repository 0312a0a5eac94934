#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "kernel/array/norm.h"
#include "kernel/array/weighted_sum.h"
#include "kernel/reduce/copy.h"
#include "kernel/reduce/reduce.h"
#include "kernel/update/update.h"
#include "optimizer/update_rule.h"
#include "server/protocol/message.h"
#include "server/storage/piece.h"
#include "server/storage/storage.h"
#include "server/storage/table_codec.h"

namespace tally::server {
namespace {

// Elements per block where several gradients are summed: a block stays in a near cache.
constexpr std::size_t kBlock = 4096;

constexpr std::size_t kCacheLineBytes = 64;
// Values of tables from this size on bypass the caches on their way to a worker.
constexpr std::size_t kStreamedBytes = std::size_t{16} << 20;

// Adaptive delay compensation (Zheng et al. 2017).
constexpr double kMeanSquareKeep = 0.95;
constexpr double kMeanSquareEpsilon = 1e-7;

// Arrays begin at different offsets within a page: equal ones share sets of the nearest cache.
template <typename T>
std::size_t stride_of(std::size_t count) {
  constexpr std::size_t kLine = 64 / sizeof(T);
  return (count + kLine - 1) / kLine * kLine + 3 * kLine;
}

// A range of a vector. T is float or double, as the spec's type.
template <typename T>
class DenseStorage final : public Storage {
 public:
  // The spec has passed check() and has this part; `codec` is the table's, or null. kExhausted
  // where there is no memory.
  static Result<std::unique_ptr<Storage>> make(const TableSpec& spec, std::uint32_t part,
                                               std::shared_ptr<const TableCodec> codec,
                                               MemoryBudget& budget) {
    std::unique_ptr<DenseStorage> storage(new DenseStorage(spec, part, std::move(codec), budget));
    const std::size_t bytes = (1 + storage->kept_arrays_) * storage->stride_ * sizeof(T);
    if (!storage->memory_.grow(bytes))
      return storage->wrong(ErrorCode::kExhausted, "no memory for {} elements in {} bytes: {}",
                            storage->count_, bytes, usage_text(budget));
    storage->reset_state();
    return std::unique_ptr<Storage>(std::move(storage));
  }

  Result<void> apply(std::span<const Gradient> gradients, const ApplyOptions& options) override {
    average_.clear();
    TALLY_TRY(const Inputs inputs, inputs_of(gradients, options));
    if (inputs.values.empty()) return {};
    const double rate = options.rate * inputs.rate;
    const OptimizerSpec& optimizer = options.optimizer ? *options.optimizer : spec_.optimizer;
    if (codec_ != nullptr && codec_->in_step()) steps_ = options.version;
    ++steps_;
    if (makes_coded_mean(inputs)) {
      std::vector<T> mean(count_);
      average_ = make_coded_mean(inputs, options.version, mean, residual());
      update(optimizer, rate, 0, mean);
      return {};
    }
    if (inputs.values.size() == 1 && !inputs.compensates) {
      // Only layerwise optimizers write to the gradient: their means are gathered.
      auto* const gradient = static_cast<T*>(const_cast<void*>(inputs.values[0]));
      update(optimizer, rate, 0, {gradient, count_});
      return {};
    }
    std::vector<T> block(std::min(kBlock, count_));
    for (std::size_t begin = 0; begin < count_; begin += kBlock) {
      const auto mean = std::span(block).first(std::min(kBlock, count_ - begin));
      make_mean(inputs, options, begin, mean);
      update(optimizer, rate, begin, mean);
    }
    return {};
  }

  Result<void> gather(std::span<const Gradient> gradients, const ApplyOptions& options) override {
    TALLY_TRY(const Inputs inputs, inputs_of(gradients, options));
    gathered_ = {.is_empty = inputs.values.empty(),
                 .rate = options.rate * inputs.rate,
                 .version = options.version};
    if (gathered_->is_empty) return {};
    gathered_->mean.resize(count_);
    if (makes_coded_mean(inputs)) {
      const std::span<float> kept = residual();
      gathered_->residual.assign(kept.begin(), kept.end());
      gathered_->average =
          make_coded_mean(inputs, options.version, gathered_->mean, gathered_->residual);
    } else {
      make_mean(inputs, options, 0, gathered_->mean);
    }
    if (spec_.clip_value > 0)
      kernel::clamp(gathered_->mean.data(), count_, static_cast<T>(spec_.clip_value));
    return {};
  }

  Squares measure(double factor, bool direction) const override {
    if (!gathered_ || gathered_->is_empty) return {};
    Squares squares{.values = kernel::square_sum(std::span<const T>(array(0), count_))};
    if (direction && spec_.optimizer.kind == OptimizerKind::kLamb) {
      squares.gradient = squares_of_direction(factor);
    } else {
      squares.gradient = factor * factor * kernel::square_sum(std::span<const T>(gathered_->mean));
    }
    return squares;
  }

  Result<void> apply_gathered(const GatheredOptions& options) override {
    average_.clear();
    if (!gathered_ || gathered_->is_empty) return {};
    Gathered gathered = std::move(*gathered_);
    gathered_.reset();
    if (codec_ != nullptr && codec_->in_step()) steps_ = gathered.version;
    ++steps_;
    average_ = std::move(gathered.average);
    const std::span<float> kept = residual();
    if (!kept.empty()) std::copy(gathered.residual.begin(), gathered.residual.end(), kept.begin());
    if (options.factor != 1)
      kernel::scale(gathered.mean.data(), count_, static_cast<T>(options.factor));
    if (!optimizer::is_layerwise(spec_.optimizer)) {
      update(spec_.optimizer, gathered.rate, 0, gathered.mean);
      return {};
    }
    const optimizer::StepFacts step{.step = steps_, .rate = gathered.rate};
    const auto whole = segment(0, count_, gathered.mean.data());
    optimizer::prepare(spec_.optimizer, step, whole);
    optimizer::finish(spec_.optimizer, step, options.norms, whole);
    return {};
  }

  void forget_gathered() override {
    gathered_.reset();
    average_.clear();  // of the update before
  }

  std::span<const std::byte> average() const override { return average_; }
  Result<void> add(const Gradient& gradient) override {
    TALLY_TRY(check_bytes("addition", gradient.values.size()));
    kernel::kernels().combine(kDataTypeOf<T>, ReduceOp::kSum, array(0), gradient.values.data(),
                              count_);
    return {};
  }

  Result<void> assign(const Gradient& gradient) override {
    TALLY_TRY(check_bytes("assignment", gradient.values.size()));
    std::memcpy(array(0), gradient.values.data(), gradient.values.size());
    reset_state();
    return {};
  }

  Result<void> add_atomically(const Gradient& gradient, double factor) override {
    TALLY_TRY(check_bytes("addition", gradient.values.size()));
    std::vector<T> copy;
    const std::span<const T> values = aligned(gradient.values, copy);
    const auto scale = static_cast<T>(factor);
    for (std::size_t i = 0; i < count_; ++i) {
      const T change = scale * values[i];
      if (change == T(0)) continue;
      std::atomic_ref<T>(array(0)[i]).fetch_add(change, std::memory_order_relaxed);
    }
    return {};
  }

  Result<void> prepare_rows(std::span<const std::uint64_t> keys) override {
    if (keys.empty()) return {};
    return wrong(ErrorCode::kInvalid, "a dense table has no keys");
  }

  std::size_t value_bytes(std::size_t) const override { return count_ * sizeof(T); }
  Result<void> read(std::span<const std::uint64_t> keys, std::span<std::byte> out) override {
    TALLY_TRY(prepare_rows(keys));
    TALLY_TRY(check_bytes("answer", out.size()));
    std::memcpy(out.data(), array(0), out.size());
    return {};
  }

  // A large table has left the caches before the worker reads it: non-temporal stores save fetching
  // the lines that are written.
  Result<void> read_for_others(std::span<const std::uint64_t> keys,
                               std::span<std::byte> out) override {
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(out.data()) % kCacheLineBytes == 0;
    if (spec_.count * sizeof(T) < kStreamedBytes || !is_aligned) return read(keys, out);
    TALLY_TRY(prepare_rows(keys));
    TALLY_TRY(check_bytes("answer", out.size()));
    kernel::copy_for_others(out.data(), reinterpret_cast<const std::byte*>(array(0)), out.size());
    return {};
  }

  Result<void> read_state(int array_index, std::span<std::byte> out) const override {
    TALLY_TRY(const T* const from, state_array(array_index));
    TALLY_TRY(check_bytes("state", out.size()));
    std::memcpy(out.data(), from, out.size());
    return {};
  }

  Result<void> write_state(int array_index, std::span<const std::byte> in) override {
    TALLY_TRY(T* const to, state_array(array_index));
    TALLY_TRY(check_bytes("state", in.size()));
    std::memcpy(to, in.data(), in.size());
    return {};
  }

  void set_steps(std::uint64_t steps) override { steps_ = steps; }
  std::vector<std::vector<std::byte>> pieces(std::span<const std::uint64_t>, bool,
                                             std::size_t max_bytes) const override {
    const std::size_t each = arrays() * sizeof(T);
    TALLY_CHECK(max_bytes >= kPieceHeaderBytes + each);
    const std::size_t at_once = std::min(count_, (max_bytes - kPieceHeaderBytes) / each);
    std::vector<std::vector<std::byte>> result;
    for (std::size_t first = 0; first < count_; first += at_once) {
      const std::size_t count = std::min(at_once, count_ - first);
      std::vector<std::byte> piece(kPieceHeaderBytes + count * each);
      write_header(DensePiece{.type = kDataTypeOf<T>,
                              .arrays = static_cast<std::uint8_t>(arrays()),
                              .has_mean_square = mean_square_.data() != nullptr,
                              .steps = steps_,
                              .first = first,
                              .count = static_cast<std::uint32_t>(count),
                              .values = {}},
                   piece);
      std::byte* out = piece.data() + kPieceHeaderBytes;
      for (std::size_t a = 0; a < arrays(); ++a, out += count * sizeof(T))
        std::memcpy(out, array(a) + first, count * sizeof(T));
      result.push_back(std::move(piece));
    }
    return result;
  }

  Result<void> take(std::span<const std::byte> bytes) override {
    TALLY_TRY(const DensePiece piece, read_dense_piece(bytes));
    const std::size_t expected = 1 + kept_arrays_ + (piece.has_mean_square ? 1 : 0);
    if (piece.type != kDataTypeOf<T> || piece.arrays != expected || piece.first > count_ ||
        piece.count > count_ - piece.first)
      return wrong(ErrorCode::kCorrupt,
                   "a piece of {} arrays of {}, elements {} to {}, is not of this part",
                   piece.arrays, to_string(piece.type), piece.first, piece.first + piece.count);
    if (piece.has_mean_square) TALLY_TRY(ensure_mean_square());
    if (!piece.has_mean_square) mean_square_.release();
    steps_ = piece.steps;
    const std::byte* from = piece.values.data();
    for (std::size_t a = 0; a < expected; ++a, from += piece.count * sizeof(T))
      std::memcpy(array(a) + piece.first, from, piece.count * sizeof(T));
    return {};
  }

  void clear() override {
    std::fill_n(array(0), count_, T(0));
    reset_state();
  }

  std::uint64_t elements() const override { return count_; }
  std::uint64_t bytes() const override { return arrays() * count_ * sizeof(T); }

 private:
  DenseStorage(const TableSpec& spec, std::uint32_t part, std::shared_ptr<const TableCodec> codec,
               MemoryBudget& budget)
      : spec_(spec),
        part_(part),
        count_(elements_of(spec, part)),
        codec_(std::move(codec)),
        state_arrays_(static_cast<std::size_t>(optimizer::state_arrays(spec.optimizer))),
        kept_arrays_(state_arrays_ + (codec_ != nullptr && codec_->keeps_residual() ? 1 : 0)),
        stride_(stride_of<T>(count_)),
        memory_(budget),
        mean_square_(budget) {}

  // An error that names the part.
  template <typename... Args>
  Error wrong(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) const {
    return make_error(code, "{}: {}", name_of_part(spec_, part_),
                      fmt::format(text, std::forward<Args>(args)...));
  }

  Result<void> check_bytes(const char* what, std::size_t bytes) const {
    if (bytes == count_ * sizeof(T)) return {};
    return wrong(ErrorCode::kCorrupt, "{} of {} bytes, must be {} for {} elements", what, bytes,
                 count_ * sizeof(T), count_);
  }

  Result<T*> state_array(int array_index) const {
    if (array_index < 0 || static_cast<std::size_t>(array_index) >= kept_arrays_)
      return wrong(ErrorCode::kInvalid, "{} has {} state arrays, but no number {}",
                   to_string(spec_.optimizer), kept_arrays_, array_index);
    return array(1 + static_cast<std::size_t>(array_index));
  }

  // Arrays in order: values, optimizer state, residual of the averages' codec (if any), mean square
  // (if any).
  T* array(std::size_t index) const {
    if (index == 1 + kept_arrays_) return reinterpret_cast<T*>(mean_square_.data());
    return reinterpret_cast<T*>(memory_.data()) + index * stride_;
  }

  std::size_t arrays() const { return 1 + kept_arrays_ + (mean_square_.data() != nullptr ? 1 : 0); }
  optimizer::Segment<T> segment(std::size_t begin, std::size_t count, T* gradient) const {
    optimizer::Segment<T> result{{array(0) + begin, count}, {gradient, count}, {}};
    for (std::size_t s = 0; s < state_arrays_; ++s) result.state[s] = {array(1 + s) + begin, count};
    return result;
  }

  void reset_state() {
    gathered_.reset();
    const auto first = static_cast<T>(optimizer::initial_state(spec_.optimizer));
    for (std::size_t s = 0; s < state_arrays_; ++s) std::fill_n(array(1 + s), count_, first);
    for (std::size_t s = state_arrays_; s < kept_arrays_; ++s)
      std::fill_n(array(1 + s), count_, T(0));
    mean_square_.release();
    steps_ = 0;
  }

  Result<void> ensure_mean_square() {
    if (mean_square_.grow(count_ * sizeof(T))) return {};
    return wrong(ErrorCode::kExhausted, "no memory for the mean square of {} gradients in {} bytes",
                 count_, count_ * sizeof(T));
  }

  // The gradients of an update that count.
  struct Inputs {
    std::vector<const void*> values;
    std::vector<T> shares;
    std::vector<double> weights;
    std::vector<const T*> backups;  // null: not compensated
    bool compensates = false;
    bool is_plain = true;                // no gradient was encoded
    double rate = 1;                     // the factor of the learning rate
    std::vector<std::vector<T>> copies;  // of unaligned memory
  };

  // The mean of a round, and what the codec makes of it.
  struct Gathered {
    bool is_empty = false;  // no gradient has a weight
    double rate = 0;
    std::uint64_t version = 0;
    std::vector<T> mean = {};
    std::vector<std::byte> average = {};
    std::vector<float> residual = {};
  };

  Result<Inputs> inputs_of(std::span<const Gradient> gradients, const ApplyOptions& options) {
    TALLY_TRY(const MeanFactors factors, mean_factors(gradients));
    Inputs inputs{.rate = factors.rate};
    for (std::size_t r = 0; r < gradients.size(); ++r) {
      const Gradient& gradient = gradients[r];
      const bool counts = factors.shares[r] != 0;
      if (codec_ == nullptr || counts) TALLY_TRY(check_bytes("gradient", gradient.values.size()));
      if (!counts) continue;
      const bool compensates = options.compensation != 0 && !gradient.backup.empty();
      if (compensates) TALLY_TRY(check_bytes("backup", gradient.backup.size()));
      inputs.compensates = inputs.compensates || compensates;
      inputs.values.push_back(place_of(gradient.values, inputs));
      inputs.backups.push_back(compensates ? place_of(gradient.backup, inputs) : nullptr);
      inputs.is_plain = inputs.is_plain && gradient.plain;
      inputs.shares.push_back(static_cast<T>(factors.shares[r]));
      inputs.weights.push_back(gradient.weight * gradient.factor);
    }
    if (inputs.compensates && options.adaptive) TALLY_TRY(ensure_mean_square());
    return inputs;
  }

  // A moved vector keeps its memory.
  static const T* place_of(std::span<const std::byte> bytes, Inputs& inputs) {
    return aligned(bytes, inputs.copies.emplace_back()).data();
  }

  bool makes_coded_mean(const Inputs& inputs) const {
    return codec_ != nullptr && !inputs.compensates &&
           (codec_->goes_back() || inputs.values.size() > 1);
  }

  // The residual of the averages' codec; empty if there is none.
  std::span<float> residual() const {
    if constexpr (std::is_same_v<T, float>)
      if (codec_ != nullptr && codec_->keeps_residual()) return {array(kept_arrays_), count_};
    return {};
  }

  // The part is one run of the codec. Returns the encoded average if it goes back to the workers;
  // `mean` is then the decoded one.
  std::vector<std::byte> make_coded_mean(const Inputs& inputs, std::uint64_t version,
                                         std::span<T> mean, std::span<float> residual) const {
    std::vector<std::byte> average;
    if constexpr (std::is_same_v<T, float>) {
      std::vector<const float*> decoded;
      for (const void* const input : inputs.values)
        decoded.push_back(static_cast<const float*>(input));
      codec_->mean(decoded, inputs.weights, inputs.is_plain, mean);
      const std::uint64_t first = std::uint64_t{part_} * elements_of(spec_, 0);
      if (codec_->goes_back())
        average = codec_->send_back({.version = version, .first = first}, mean, residual);
    }
    return average;
  }

  // The weighted mean of some elements, each gradient with its delay compensated.
  void make_mean(const Inputs& inputs, const ApplyOptions& options, std::size_t begin,
                 std::span<T> mean) {
    std::vector<std::vector<T>> compensated;
    std::vector<const void*> from;
    for (std::size_t r = 0; r < inputs.values.size(); ++r) {
      const T* const gradient = static_cast<const T*>(inputs.values[r]) + begin;
      from.push_back(gradient);
      if (inputs.backups[r] == nullptr) continue;
      std::vector<T>& copy = compensated.emplace_back(gradient, gradient + mean.size());
      compensate(options, inputs.backups[r] + begin, begin, copy);
      from.back() = copy.data();
    }
    kernel::weighted_sum(kDataTypeOf<T>, from, inputs.shares, mean.data(), mean.size());
  }

  // A step of the elements from `begin` on.
  void update(const OptimizerSpec& spec, double rate, std::size_t begin, std::span<T> gradient) {
    optimizer::update(spec, {.step = steps_, .rate = rate},
                      segment(begin, gradient.size(), gradient.data()));
  }

  // lamb: the squares of the direction, from copies of gradient and state.
  double squares_of_direction(double factor) const {
    double squares = 0;
    std::array<std::vector<T>, 4> near;  // values, gradient, two arrays of state
    for (std::size_t begin = 0; begin < count_; begin += kBlock) {
      const std::size_t count = std::min(kBlock, count_ - begin);
      const T* const from[] = {array(0), gathered_->mean.data(), array(1), array(2)};
      for (std::size_t k = 0; k < near.size(); ++k)
        near[k].assign(from[k] + begin, from[k] + begin + count);
      if (factor != 1) kernel::scale(near[1].data(), count, static_cast<T>(factor));
      optimizer::prepare<T>(spec_.optimizer, {.step = next_step(), .rate = gathered_->rate},
                            {near[0], near[1], {near[2], near[3]}});
      squares += kernel::square_sum(std::span<const T>(near[1]));
    }
    return squares;
  }

  // The number of the gathered update.
  std::uint64_t next_step() const {
    const bool by_version = codec_ != nullptr && codec_->in_step();
    return (by_version ? gathered_->version : steps_) + 1;
  }

  void compensate(const ApplyOptions& options, const T* backup, std::size_t begin,
                  std::span<T> gradient) {
    const auto& loops = kernel::update_kernels<T>();
    const kernel::CompensationFactors<T> factors{.lambda = static_cast<T>(options.compensation),
                                                 .keep = static_cast<T>(kMeanSquareKeep),
                                                 .gain = static_cast<T>(1 - kMeanSquareKeep),
                                                 .epsilon = static_cast<T>(kMeanSquareEpsilon)};
    if (!options.adaptive)
      return loops.compensate(factors, array(0) + begin, backup, gradient.data(), gradient.size());
    loops.compensate_adaptively(factors, array(0) + begin, backup, gradient.data(),
                                array(1 + kept_arrays_) + begin, gradient.size());
  }

  const TableSpec spec_;
  const std::uint32_t part_;
  const std::size_t count_;
  const std::shared_ptr<const TableCodec> codec_;  // of the whole table
  const std::size_t state_arrays_;
  const std::size_t kept_arrays_;  // state_arrays_ and the residual
  const std::size_t stride_;       // elements from one array to the next
  GrowingMemory memory_;
  GrowingMemory mean_square_;
  std::uint64_t steps_ = 0;
  std::vector<std::byte> average_;
  std::optional<Gathered> gathered_;
};

}  // namespace

Result<std::unique_ptr<Storage>> make_dense_storage(const TableSpec& spec, std::uint32_t part,
                                                    MemoryBudget& budget) {
  if (const std::uint32_t parts = parts_of(spec, 1); part >= parts)
    return invalid("table '{}' has {} parts, but no part {}", spec.name, parts, part);
  TALLY_TRY(auto codec, TableCodec::make(spec));
  if (spec.type == DataType::kFloat32)
    return DenseStorage<float>::make(spec, part, std::move(codec), budget);
  return DenseStorage<double>::make(spec, part, nullptr, budget);
}

}  // namespace tally::server
