#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "base/stopwatch.h"
#include "exchange/clip.h"
#include "exchange/device/device_exchange.h"
#include "exchange/device/device_step.h"

// The update of a DeviceExchange, when all ranks have all sums or averages.
//
// A bucket is updated by one kernel. Its scalars lie in the table of pieces on the device, which
// every step posts anew. Norms are added up on the host, by the same code as elsewhere: clip_norm,
// loss scaling, LAMB, LARS and codecs wait for the device in each step. With other settings a
// single rank waits only where it is so far ahead of the device that post() has no room for a
// table.
//
// With sharded state kernels see only the cells of this rank's ranges. send_values() sends a range
// when its bucket is updated, and take_values() copies those of the others into the values.
namespace tally::exchange {
namespace {

constexpr auto kValuesTimeout = std::chrono::minutes(5);
constexpr auto kBackwardTimeout = std::chrono::minutes(5);

}  // namespace

// Adds the arrays of a step to a bucket of the model.
DeviceBucket DeviceExchange::bucket(DeviceBucket of_model, std::size_t b) const {
  DeviceBucket bucket = of_model;
  bucket.pieces = reinterpret_cast<const DevicePiece*>(piece_table_.data) + first_piece_[b];
  if (encodes(b))
    bucket.sums = encoding_->gradient(b);
  else if (!directions_.empty())
    bucket.sums = directions_[sum_array_[b]].data;
  else if (sum_)
    bucket.sums = sum_->total(sum_array_[b]);
  return bucket;
}

GradientChange DeviceExchange::change_of(std::size_t b, GradientChange change) const {
  change.factor = factors_[b];
  return change;
}

optimizer::StepFacts DeviceExchange::facts_of(std::size_t parameter) const {
  const OptimizerSpec& spec = spec_of(parameter);
  const std::size_t group = parameters()[parameter].group;
  return {.step = (spec.freeze_after > 0 ? updates_ : steps_[parameter]) + 1,
          .rate = group < rates_.size() ? rates_[group] : spec.rate};
}

// For a kernel that reads the gradient of all ranks: in the sums, or where backward has put it.
DevicePiece DeviceExchange::piece_of(std::size_t b, const BucketLayout::Entry& entry) const {
  return {.first = entry.range.begin,
          .count = entry.range.count(),
          .gradient = sum_ || encodes(b) ? nullptr : places_[entry.parameter],
          .used = used_[entry.parameter]};
}

Result<void> DeviceExchange::post_pieces() {
  return options_.device->post(piece_table_.data, std::as_bytes(std::span(pieces_)));
}

// Other ranks of a GPU may read the same total, which lamb therefore must not replace.
Result<void> DeviceExchange::copy_totals() {
  if (!sum_ || directions_.empty()) return {};
  for (std::size_t b = 0; b < first_piece_.size(); ++b)
    if (!encodes(b))
      TALLY_TRY(options_.device->copy(directions_[sum_array_[b]].data, sum_->total(sum_array_[b]),
                                      directions_[sum_array_[b]].bytes));
  return {};
}

// Returns whether there was an update: a gradient that is not finite may be discarded.
Result<bool> DeviceExchange::apply(double samples) {
  const GroupUpdate::Options& update = options_.update;
  const bool needs_norm = update.clip_norm || update.discards_nonfinite;
  // Norms are read by the host. What it waits for until then is the backward pass.
  if (needs_norm || layerwise_) TALLY_TRY(options_.device->wait(after(kBackwardTimeout)));
  const Stopwatch watch(updating_);
  TALLY_TRY(options_.device->finish_reads());
  TALLY_TRY(copy_totals());
  GradientChange change;
  std::size_t next = 0;
  factors_.clear();
  for (std::size_t b = 0; b < first_piece_.size(); ++b) {
    factors_.push_back(encodes(b) ? 1 : (sum_ ? 1 : weight_) / samples);
    for (const BucketLayout::Entry& entry : model_->layout().buckets[b].entries)
      pieces_[next++] = piece_of(b, entry);
  }
  if (needs_norm) {
    TALLY_TRY(post_pieces());
    TALLY_TRY(const bool goes_on, clip(change));
    if (!goes_on) return false;
  } else {
    change.limit = update.clip_value.value_or(0);
  }
  if (layerwise_) {
    TALLY_TRY(update_layerwise(change));
  } else {
    TALLY_TRY(update_loops(change, {}));
  }
  if (is_sharded()) TALLY_TRY(take_values());
  return true;
}

// As GroupUpdate::clip(). An infinite element would not be seen any more once it is clamped.
Result<bool> DeviceExchange::clip(GradientChange& change) {
  const GroupUpdate::Options& update = options_.update;
  std::optional<double> squares;
  if (update.discards_nonfinite) {
    TALLY_TRY(squares, gradient_squares(change));
    if (!std::isfinite(*squares)) return false;
  }
  if (update.clip_value) {
    change.limit = *update.clip_value;
    squares.reset();
  }
  if (!update.clip_norm) return true;
  if (!squares) {
    TALLY_TRY(squares, gradient_squares(change));
  }
  change.scale = clip_factor(std::sqrt(*squares), *update.clip_norm);
  return true;
}

// Waits for the device. With sharded state each cell belongs to one rank: adding the zeros of the
// others changes no bit.
Result<std::vector<Squares>> DeviceExchange::all_squares(const GradientChange& change) {
  auto* const on_device = reinterpret_cast<Squares*>(squares_.data);
  for (std::size_t b = 0; b < first_piece_.size(); ++b)
    TALLY_TRY(options_.device->squares(bucket(model_->owned(b), b), change_of(b, change),
                                       on_device + model_->owned_cell(b)));
  std::vector<Squares> cells(model_->cells());
  TALLY_TRY(options_.device->read(std::as_writable_bytes(std::span(cells)), squares_.data));
  if (!is_sharded() || cells.empty()) return cells;
  static_assert(sizeof(Squares) == 2 * sizeof(double));
  TALLY_TRY(replicas_->allreduce(std::span(&cells.data()->values, 2 * cells.size())));
  return cells;
}

Result<double> DeviceExchange::gradient_squares(const GradientChange& change) {
  TALLY_TRY(const std::vector<Squares> cells, all_squares(change));
  double sum = 0;
  for (const Squares& cell : cells) sum += cell.gradient;
  return sum;
}

// lamb writes its direction in place of the gradient first. Both kinds then need the norms of each
// parameter's values and gradient, or direction.
Result<void> DeviceExchange::update_layerwise(const GradientChange& change) {
  GradientChange rest = change;
  if (is_lamb()) {
    std::size_t next = 0;
    for (const BucketLayout& layout : model_->layout().buckets)
      for (const BucketLayout::Entry& entry : layout.entries)
        set_direction_factors({.spec = spec_of(entry.parameter),
                               .facts = facts_of(entry.parameter),
                               .type = layout.type},
                              pieces_[next++]);
  }
  TALLY_TRY(post_pieces());
  if (is_lamb()) {
    for (std::size_t b = 0; b < first_piece_.size(); ++b)
      TALLY_TRY(options_.device->update(bucket(model_->owned(b), b), UpdateLoop::kLambDirection,
                                        change_of(b, change)));
    for (DevicePiece& piece : pieces_) piece.gradient = nullptr;
    TALLY_TRY(post_pieces());
    rest = {};
    std::fill(factors_.begin(), factors_.end(), 1.0);
  }
  TALLY_TRY(const std::vector<Squares> cells, all_squares(rest));
  std::vector<Squares> of_parameters(parameters().size());
  for (std::size_t k = 0; k < cells.size(); ++k) {
    Squares& sums = of_parameters[model_->parameter_of_cell()[k]];
    sums.values += cells[k].values;
    sums.gradient += cells[k].gradient;
  }
  return update_loops(rest, of_parameters);
}

// One loop, unless groups of parameters differ in it: each loop then skips the others' pieces.
Result<void> DeviceExchange::update_loops(const GradientChange& change,
                                          const std::vector<Squares>& of_parameters) {
  for (const UpdateLoop loop : loops_) {
    std::size_t next = 0;
    for (const BucketLayout& layout : model_->layout().buckets)
      for (const BucketLayout::Entry& entry : layout.entries) {
        DevicePiece& piece = pieces_[next++];
        const OptimizerSpec& spec = spec_of(entry.parameter);
        StepScalars scalars{.spec = spec, .facts = facts_of(entry.parameter), .type = layout.type};
        if (!of_parameters.empty())
          scalars.norms = {.parameters = std::sqrt(of_parameters[entry.parameter].values),
                           .gradient = std::sqrt(of_parameters[entry.parameter].gradient)};
        set_factors(scalars, piece);
        piece.used = used_[entry.parameter] != 0 && loop_of(spec) == loop ? 1 : 0;
      }
    TALLY_TRY(post_pieces());
    for (std::size_t b = 0; b < first_piece_.size(); ++b) {
      TALLY_TRY(options_.device->update(bucket(model_->owned(b), b), loop, change_of(b, change)));
      if (is_sharded() && loop == loops_.back()) TALLY_TRY(send_values(b));
    }
  }
  return {};
}

// A rank whose range is empty sends nothing.
Result<void> DeviceExchange::send_values(std::size_t b) {
  const Range own = model_->range_of(b, replicas_->rank());
  const DeviceBucket& bucket = model_->bucket(b);
  const std::size_t element = size_of(bucket.type);
  if (!own.empty())
    TALLY_TRY(options_.device->copy(new_values_->own(b), bucket.values + own.begin * element,
                                    own.count() * element));
  return new_values_->start(b, own.count() * element);
}

Result<void> DeviceExchange::take_values() {
  TALLY_TRY(new_values_->finish(after(kValuesTimeout)));
  for (std::size_t b = 0; b < first_piece_.size(); ++b) {
    const DeviceBucket& bucket = model_->bucket(b);
    const std::size_t element = size_of(bucket.type);
    for (Rank rank = 0; rank < replicas_->size(); ++rank) {
      const Range range = model_->range_of(b, rank);
      if (rank == replicas_->rank() || range.empty()) continue;
      const std::span<const std::byte> values = new_values_->of(rank, b);
      if (values.size() != range.count() * element)
        return make_error(ErrorCode::kCorrupt, rank, "{} bytes of new values, expected {}",
                          values.size(), range.count() * element);
      TALLY_TRY(options_.device->copy(bucket.values + range.begin * element, values.data(),
                                      values.size()));
    }
  }
  return {};
}

}  // namespace tally::exchange
