#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "kernel/array/norm.h"
#include "kernel/array/weighted_sum.h"
#include "kernel/reduce/reduce.h"
#include "optimizer/update_rows.h"
#include "server/protocol/message.h"
#include "server/storage/piece.h"
#include "server/storage/row_table.h"
#include "server/storage/storage.h"

namespace tally::server {
namespace {

// Rows shorter than this are gathered, so that one kernel call updates a batch; longer rows are
// updated in place.
constexpr std::uint32_t kGatheredDimension = 16;

std::uint8_t arrays_of(const TableSpec& spec) {
  return static_cast<std::uint8_t>(1 + optimizer::state_arrays(spec.optimizer));
}

RowShape shape_of(const TableSpec& spec) {
  return {.dimension = spec.dimension,
          .arrays = arrays_of(spec),
          .seed = spec.seed,
          .scale = spec.initial_scale,
          .state = static_cast<float>(optimizer::initial_state(spec.optimizer))};
}

// A constant size of four bytes compiles to a move instead of a call.
inline void copy_floats(const void* from, std::size_t bytes, void* to) {
  if (bytes == sizeof(float)) {
    std::memcpy(to, from, sizeof(float));
  } else {
    std::memcpy(to, from, bytes);
  }
}

// Saturates: bias corrections are exact long before.
std::uint32_t next_step(std::uint32_t steps) {
  return steps == std::numeric_limits<std::uint32_t>::max() ? steps : steps + 1;
}

// The weighted sum of several sets of rows over the union of their keys, by a hash table that is
// reused. Threads: calls must not overlap.
class SparseSum final {
 public:
  explicit SparseSum(std::uint32_t dimension) : dimension_(dimension) {}

  // Starts an empty sum of at most `most` keys.
  void begin(std::size_t most) {
    bits_ = 4;
    while (std::size_t{1} << bits_ < 2 * most) ++bits_;
    slots_.assign(std::size_t{1} << bits_, 0);
    keys_.clear();
    keys_.reserve(most);
    rows_.resize(std::max(rows_.size(), most * dimension_));
  }

  // Rounds each product and each sum to float, in the order of the calls.
  void add(std::span<const std::uint64_t> keys, const float* rows, float weight) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Place place = place_of(keys[i]);
      float* const sum = rows_.data() + place.row * dimension_;
      const float* const row = rows + i * dimension_;
      for (std::uint32_t d = 0; d < dimension_; ++d) {
        const float product = weight * row[d];
        sum[d] = place.is_new ? product : sum[d] + product;
      }
    }
  }

  void clamp(float limit) { kernel::clamp(rows_.data(), keys_.size() * dimension_, limit); }
  void scale(float factor) { kernel::scale(rows_.data(), keys_.size() * dimension_, factor); }

  // In the order of their first occurrence.
  std::span<const std::uint64_t> keys() const { return keys_; }
  const float* rows() const { return rows_.data(); }

 private:
  struct Place {
    std::size_t row = 0;
    bool is_new = false;
  };
  Place place_of(std::uint64_t key) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash_of_key(key) >> (64 - bits_);
    for (; slots_[at] != 0; at = (at + 1) & mask) {
      if (keys_[slots_[at] - 1] == key) return {.row = slots_[at] - 1U};
    }
    keys_.push_back(key);
    TALLY_CHECK(keys_.size() * dimension_ <= rows_.size());
    slots_[at] = static_cast<std::uint32_t>(keys_.size());
    return {.row = keys_.size() - 1, .is_new = true};
  }

  const std::uint32_t dimension_;
  std::vector<std::uint64_t> keys_;
  std::vector<float> rows_;
  std::vector<std::uint32_t> slots_;  // index of the key plus one; 0: empty
  int bits_ = 0;
};

// Rows by key. Each row has its own optimizer state and step count ("lazy Adam"): a row without a
// gradient is not touched, and bias corrections count the updates of the row.
class SparseStorage final : public Storage {
 public:
  // The spec has passed check().
  SparseStorage(const TableSpec& spec, std::uint32_t part, MemoryBudget& budget)
      : spec_(spec),
        part_(part),
        arrays_(arrays_of(spec)),
        budget_(budget),
        table_(shape_of(spec), budget),
        optimizer_(spec.optimizer),
        rule_(std::make_unique<optimizer::RowUpdate>(spec.optimizer, spec.dimension)),
        sum_(spec.dimension) {
    if (spec.dimension < kGatheredDimension)
      gathered_.resize(std::size_t{arrays_} * RowTable::kBatch * spec.dimension);
  }

  Result<void> apply(std::span<const Gradient> gradients, const ApplyOptions& options) override {
    TALLY_TRY(const MeanFactors factors, mean_factors(gradients));
    std::size_t last = 0, counted = 0;
    for (std::size_t r = 0; r < gradients.size(); ++r) {
      TALLY_TRY(check_gradient(gradients[r]));
      if (options.compensation != 0 && !gradients[r].backup.empty())
        return wrong(ErrorCode::kInvalid, "only dense tables have their delay compensated");
      if (factors.shares[r] == 0) continue;
      last = r;
      ++counted;
    }
    if (counted == 0) return {};
    use_optimizer(options);
    const double rate = options.rate * factors.rate;
    std::vector<float> copy;
    if (counted == 1)
      return step(gradients[last].keys, aligned(gradients[last].values, copy).data(), rate);
    sum_gradients(gradients, factors.shares);
    return step(sum_.keys(), sum_.rows(), rate);
  }

  // Makes the rows, so that apply_gathered() cannot fail.
  Result<void> gather(std::span<const Gradient> gradients, const ApplyOptions& options) override {
    TALLY_TRY(const MeanFactors factors, mean_factors(gradients));
    for (const Gradient& gradient : gradients) TALLY_TRY(check_gradient(gradient));
    sum_gradients(gradients, factors.shares);
    TALLY_TRY(prepare_rows(sum_.keys()));
    if (spec_.clip_value > 0) sum_.clamp(static_cast<float>(spec_.clip_value));
    gathered_rate_ = options.rate * factors.rate;
    return {};
  }

  // A sparse table has no norm of all its values, and takes no optimizer that needs it.
  Squares measure(double factor, bool /*direction*/) const override {
    const std::size_t count = sum_.keys().size() * spec_.dimension;
    const double squares = kernel::square_sum(std::span<const float>(sum_.rows(), count));
    return {.values = 0, .gradient = gathered_rate_ ? factor * factor * squares : 0};
  }

  Result<void> apply_gathered(const GatheredOptions& options) override {
    if (!gathered_rate_) return {};
    const double rate = *std::exchange(gathered_rate_, std::nullopt);
    if (options.factor != 1) sum_.scale(static_cast<float>(options.factor));
    return step(sum_.keys(), sum_.rows(), rate);
  }

  void forget_gathered() override { gathered_rate_.reset(); }

  Result<void> add(const Gradient& gradient) override {
    TALLY_TRY(check_gradient(gradient));
    const std::size_t each = value_bytes(1);
    return for_rows(gradient.keys, [&](std::span<const Row> rows, std::size_t begin) {
      const std::byte* from = gradient.values.data() + begin * each;
      // For short rows a call costs more than the addition.
      if (spec_.dimension < kGatheredDimension) return add_each(rows, from);
      for (std::size_t i = 0; i < rows.size(); ++i, from += each)
        kernel::kernels().combine(DataType::kFloat32, ReduceOp::kSum, rows[i].values(), from,
                                  spec_.dimension);
    });
  }

  Result<void> assign(const Gradient& gradient) override {
    TALLY_TRY(check_gradient(gradient));
    const std::size_t each = value_bytes(1);
    const auto state = static_cast<float>(optimizer::initial_state(spec_.optimizer));
    return for_rows(gradient.keys, [&](std::span<const Row> rows, std::size_t begin) {
      const std::byte* from = gradient.values.data() + begin * each;
      for (std::size_t i = 0; i < rows.size(); ++i, from += each) {
        std::memcpy(rows[i].values(), from, each);
        std::fill_n(rows[i].values() + spec_.dimension, (arrays_ - 1U) * spec_.dimension, state);
        rows[i].set_steps(0);
      }
    });
  }

  Result<void> add_atomically(const Gradient& gradient, double factor) override {
    TALLY_TRY(check_gradient(gradient));
    if (const std::size_t missing = table_.missing(gradient.keys); missing != 0)
      return wrong(ErrorCode::kInvalid, "{} of {} rows are not there to be added to", missing,
                   gradient.keys.size());
    std::vector<float> copy;
    const float* from = aligned(gradient.values, copy).data();
    const auto scale = static_cast<float>(factor);
    Row rows[RowTable::kBatch];
    for (std::size_t begin = 0; begin < gradient.keys.size(); begin += RowTable::kBatch) {
      const auto batch =
          gradient.keys.subspan(begin, std::min(RowTable::kBatch, gradient.keys.size() - begin));
      table_.find(batch, rows);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        for (std::uint32_t d = 0; d < spec_.dimension; ++d)
          std::atomic_ref<float>(rows[i].values()[d])
              .fetch_add(scale * *from++, std::memory_order_relaxed);
      }
    }
    return {};
  }

  Result<void> prepare_rows(std::span<const std::uint64_t> keys) override {
    return for_rows(keys, [](std::span<const Row>, std::size_t) {});
  }

  std::size_t value_bytes(std::size_t keys) const override {
    return keys * spec_.dimension * sizeof(float);
  }

  Result<void> read(std::span<const std::uint64_t> keys, std::span<std::byte> out) override {
    if (out.size() != value_bytes(keys.size()))
      return wrong(ErrorCode::kInvalid, "room of {} bytes for {} rows of {} values", out.size(),
                   keys.size(), spec_.dimension);
    const std::size_t each = value_bytes(1);
    return for_rows(keys, [&](std::span<const Row> rows, std::size_t begin) {
      std::byte* to = out.data() + begin * each;
      for (std::size_t i = 0; i < rows.size(); ++i, to += each)
        copy_floats(rows[i].values(), each, to);
    });
  }

  Result<void> read_state(int, std::span<std::byte>) const override {
    return wrong(ErrorCode::kInvalid, "only dense tables have state arrays that can be read");
  }

  Result<void> write_state(int, std::span<const std::byte>) override {
    return wrong(ErrorCode::kInvalid, "only dense tables have state arrays that can be written");
  }

  void set_steps(std::uint64_t) override {}
  std::vector<std::vector<std::byte>> pieces(std::span<const std::uint64_t> only, bool everything,
                                             std::size_t max_bytes) const override {
    const std::size_t each = table_.record_bytes();
    TALLY_CHECK(max_bytes >= kPieceHeaderBytes + each);
    const std::vector<Row> rows = rows_of(only, everything);
    const std::size_t at_once = (max_bytes - kPieceHeaderBytes) / each;
    std::vector<std::vector<std::byte>> result;
    // At least one piece: it tells that there are no rows.
    for (std::size_t first = 0; first < rows.size() || result.empty(); first += at_once) {
      const std::size_t count = std::min(at_once, rows.size() - first);
      std::vector<std::byte> piece(kPieceHeaderBytes + count * each);
      write_header(SparsePiece{.dimension = spec_.dimension,
                               .arrays = arrays_,
                               .rows = static_cast<std::uint32_t>(count),
                               .records = {}},
                   piece);
      for (std::size_t i = 0; i < count; ++i)
        std::memcpy(piece.data() + kPieceHeaderBytes + i * each, rows[first + i].place(), each);
      result.push_back(std::move(piece));
    }
    return result;
  }

  Result<void> take(std::span<const std::byte> bytes) override {
    TALLY_TRY(const SparsePiece piece, read_sparse_piece(bytes));
    if (piece.dimension != spec_.dimension || piece.arrays != arrays_)
      return wrong(ErrorCode::kCorrupt, "a piece with {} arrays of {} values is not of this table",
                   piece.arrays, piece.dimension);
    const std::size_t each = table_.record_bytes();
    std::vector<std::uint64_t> keys(piece.rows);
    for (std::size_t i = 0; i < keys.size(); ++i)
      std::memcpy(&keys[i], piece.records.data() + i * each, sizeof keys[i]);
    return for_rows(keys, [&](std::span<const Row> rows, std::size_t begin) {
      const std::byte* from = piece.records.data() + begin * each;
      for (std::size_t i = 0; i < rows.size(); ++i, from += each)
        std::memcpy(rows[i].place(), from, each);
    });
  }

  void clear() override {
    table_.clear();
    gathered_rate_.reset();
  }
  std::uint64_t elements() const override { return table_.size(); }
  std::uint64_t bytes() const override { return table_.bytes(); }

 private:
  // An error that names the part.
  template <typename... Args>
  Error wrong(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) const {
    return make_error(code, "{}: {}", name_of_part(spec_, part_),
                      fmt::format(text, std::forward<Args>(args)...));
  }

  Result<void> check_gradient(const Gradient& gradient) const {
    if (gradient.values.size() == value_bytes(gradient.keys.size())) return {};
    return wrong(ErrorCode::kCorrupt, "{} bytes for {} rows of {} values", gradient.values.size(),
                 gradient.keys.size(), spec_.dimension);
  }

  // The weighted sum of the gradients, in sum_.
  void sum_gradients(std::span<const Gradient> gradients, std::span<const double> shares) {
    std::size_t most = 0;
    for (std::size_t r = 0; r < gradients.size(); ++r)
      if (shares[r] != 0) most += gradients[r].keys.size();
    sum_.begin(most);
    std::vector<float> copy;
    for (std::size_t r = 0; r < gradients.size(); ++r)
      if (shares[r] != 0)
        sum_.add(gradients[r].keys, aligned(gradients[r].values, copy).data(),
                 static_cast<float>(shares[r]));
  }

  // The optimizer of asynchronous updates changes with the number of workers.
  void use_optimizer(const ApplyOptions& options) {
    const OptimizerSpec& wanted = options.optimizer ? *options.optimizer : spec_.optimizer;
    if (wanted == optimizer_) return;
    optimizer_ = wanted;
    rule_ = std::make_unique<optimizer::RowUpdate>(wanted, spec_.dimension);
  }

  // One optimizer step of the rows.
  Result<void> step(std::span<const std::uint64_t> keys, const float* values, double rate) {
    return for_rows(keys, [&](std::span<const Row> rows, std::size_t begin) {
      update(rows, values + begin * spec_.dimension, rate);
    });
  }

  // Calls `work` with each batch of rows and the index of its first key; makes missing rows.
  template <typename Work>
  Result<void> for_rows(std::span<const std::uint64_t> keys, Work work) {
    if (!table_.make_room(keys)) {
      return wrong(ErrorCode::kExhausted, "no memory for {} more rows beside {} in {} bytes: {}",
                   table_.missing(keys), table_.size(), table_.bytes(), usage_text(budget_));
    }
    Row rows[RowTable::kBatch];
    for (std::size_t begin = 0; begin < keys.size(); begin += RowTable::kBatch) {
      const auto batch = keys.subspan(begin, std::min(RowTable::kBatch, keys.size() - begin));
      table_.find_or_make(batch, rows);
      work(std::span<const Row>(rows, batch.size()), begin);
    }
    return {};
  }

  void update(std::span<const Row> rows, const float* gradient, double rate) {
    if (!gathered_.empty()) return update_gathered(rows, gradient, rate);
    const std::size_t dimension = spec_.dimension;
    for (const Row& row : rows) {
      const std::uint32_t step = next_step(row.steps());
      optimizer::Segment<float> segment{{row.values(), dimension},
                                        // Only layerwise optimizers write to it.
                                        {const_cast<float*>(gradient), dimension},
                                        {}};
      for (std::size_t s = 1; s < arrays_; ++s)
        segment.state[s - 1] = {row.values() + s * dimension, dimension};
      rule_->run(rate, {&step, 1}, segment);
      row.set_steps(step);
      gradient += dimension;
    }
  }

  void update_gathered(std::span<const Row> rows, const float* gradient, double rate) {
    const std::size_t dimension = spec_.dimension;
    const std::size_t count = rows.size() * dimension;
    std::uint32_t steps[RowTable::kBatch];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      steps[i] = next_step(rows[i].steps());
      for (std::size_t a = 0; a < arrays_; ++a)
        copy_floats(rows[i].values() + a * dimension, dimension * sizeof(float),
                    gathered_.data() + a * count + i * dimension);
    }
    optimizer::Segment<float> segment{
        {gathered_.data(), count}, {const_cast<float*>(gradient), count}, {}};
    for (std::size_t s = 1; s < arrays_; ++s)
      segment.state[s - 1] = {gathered_.data() + s * count, count};
    rule_->run(rate, {steps, rows.size()}, segment);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].set_steps(steps[i]);
      for (std::size_t a = 0; a < arrays_; ++a)
        copy_floats(gathered_.data() + a * count + i * dimension, dimension * sizeof(float),
                    rows[i].values() + a * dimension);
    }
  }

  void add_each(std::span<const Row> rows, const std::byte* from) const {
    for (const Row& row : rows) {
      for (std::uint32_t d = 0; d < spec_.dimension; ++d, from += sizeof(float)) {
        float change = 0;
        std::memcpy(&change, from, sizeof change);
        row.values()[d] += change;
      }
    }
  }

  std::vector<Row> rows_of(std::span<const std::uint64_t> only, bool everything) const {
    std::vector<Row> result;
    if (everything) {
      result.reserve(table_.size());
      for (std::uint32_t row = 0; row < table_.size(); ++row) result.push_back(table_.at(row));
      return result;
    }
    result.resize(only.size());
    for (std::size_t begin = 0; begin < only.size(); begin += RowTable::kBatch)
      table_.find(only.subspan(begin, std::min(RowTable::kBatch, only.size() - begin)),
                  result.data() + begin);
    std::erase_if(result, [](const Row& row) { return !row.found(); });
    return result;
  }

  const TableSpec spec_;
  const std::uint32_t part_;
  const std::uint8_t arrays_;
  MemoryBudget& budget_;
  RowTable table_;
  OptimizerSpec optimizer_;  // of rule_
  std::unique_ptr<optimizer::RowUpdate> rule_;
  SparseSum sum_;
  std::optional<double> gathered_rate_;  // the learning rate of the gathered mean, in sum_
  std::vector<float> gathered_;          // arrays_ times RowTable::kBatch rows
};

}  // namespace

std::unique_ptr<Storage> make_sparse_storage(const TableSpec& spec, std::uint32_t part,
                                             MemoryBudget& budget) {
  return std::make_unique<SparseStorage>(spec, part, budget);
}

}  // namespace tally::server
