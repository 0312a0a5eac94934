#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/stopwatch.h"
#include "exchange/auto_codec/auto_codec.h"
#include "exchange/clip.h"
#include "exchange/group/group_update.h"

// One step of a GroupUpdate; group_update.cc sets up the memory and the slices.
//
//   begin()      announces this rank's weight and samples in its StepFlags.
//   ready()      adds a parameter's gradient to its bucket; advance() then runs work_on() for the
//                buckets that are complete on all neighbours, in bucket order:
//                  kNowhere             sum the slice, and update it unless is_deferred()
//                  kParts, kAverages    sum the local range, submit it to pipeline_
//   complete()   agree() sums samples and use of parameters over all ranks. advance() handles the
//                remaining buckets. update_deferred() waits for sums or averages, clips, updates
//                the slices and publishes values. commit() makes the new version the present one
//                when all ranks have come that far. With agrees_first_, updates are in place and
//                begin when all ranks have all averages; nothing can fail from then on.
namespace tally::exchange {
bool GroupUpdate::needs_norm() const {
  return options_.clip_norm.has_value() || options_.discards_nonfinite;
}

bool GroupUpdate::is_deferred() const {
  return layerwise_ || needs_norm() || across_ != Across::kNowhere;
}

UpdateFacts GroupUpdate::facts() const {
  return {.rates = rates_, .steps = steps_, .used = used_, .updates = updates_};
}

Result<void> GroupUpdate::begin(const StepContribution& contribution) {
  if (begun_) return {};
  TALLY_TRY(make_state());
  begun_ = true;
  for (Bucket& bucket : buckets_) bucket.ready_at = {};
  memory_->flags(tiers_.local).weigh(contribution.weight, contribution.samples);
  return {};
}

Result<void> GroupUpdate::ready(std::size_t parameter, const std::byte* elsewhere) {
  TALLY_CHECK(elsewhere == nullptr || alone_on_host() ||
              memory_->has_gradients({elsewhere, gradient(parameter).size()}));
  const std::size_t bucket = memory_->layout().place_of[parameter].bucket;
  if (!buckets_[bucket].gradients->add(parameter, elsewhere) || !begun_) return {};
  close(bucket);
  return advance(false);
}

void GroupUpdate::close(std::size_t b) {
  if (buckets_[b].ready_at == TimePoint{}) buckets_[b].ready_at = steady_now();
  buckets_[b].gradients->close(step_);
}

void GroupUpdate::note_done(std::size_t b) {
  if (options_.on_bucket) options_.on_bucket(b, buckets_[b].ready_at, steady_now());
}

// Before the totals are known, only buckets that are complete by ready() are processed: all their
// parameters are used.
Result<void> GroupUpdate::advance(bool totals_known) {
  if (!totals_known && agrees_first_ && !is_deferred()) return {};
  const Stopwatch watch(times_.update);
  for (; next_ < buckets_.size(); ++next_) {
    const BucketAccumulator& gradients = *buckets_[next_].gradients;
    if (!totals_known && !gradients.is_full()) break;
    if (!gradients.is_complete(step_)) break;
    if (!totals_known && gradients.samples() == 0) break;
    // A gradient of a rank without samples does not count as used. All ranks must agree on that, so
    // leave such buckets to complete().
    if (!totals_known && memory_->flags(tiers_.local).samples() == 0) break;
    work_on(next_, totals_known);
  }
  if (pipeline_) pipeline_->advance();
  return {};
}

void GroupUpdate::work_on(std::size_t b, bool totals_known) {
  Bucket& bucket = buckets_[b];
  const double samples = bucket.gradients->samples();
  if (across_ != Across::kNowhere) return send(b, samples, totals_known);
  const double divisor = samples == 0 ? 1 : samples;
  if (is_deferred()) return bucket.slice->sum(*bucket.gradients, divisor);
  UpdateFacts now = facts();
  if (!totals_known) now.used = all_used_;
  bucket.slice->sum_and_update(*bucket.gradients, divisor, options_.clip_value.value_or(0), now);
  note_done(b);
}

// Sums of parts are divided when the totals are known; a codec encodes a mean.
void GroupUpdate::send(std::size_t b, double samples, bool totals_known) {
  Bucket& bucket = buckets_[b];
  const bool is_sum = pipeline_->takes_sums(b);
  const double divisor = is_sum || samples == 0 ? 1 : samples;
  const std::vector<std::uint8_t>& used = totals_known ? used_ : all_used_;
  std::span<std::byte> values = bucket.slice->gradient();
  std::span<std::byte> own;
  if (across_ == Across::kParts) {
    const bool is_double = memory_->layout().buckets[b].type == DataType::kFloat64;
    bucket.lane_sum.resize(bucket.local.count() * (is_double ? sizeof(double) : sizeof(float)));
    own = std::exchange(values, bucket.lane_sum);
    if (is_double)
      bucket.gradients->sum<double>(divisor)(bucket.local,
                                             reinterpret_cast<double*>(values.data()));
    else
      bucket.gradients->sum<float>(divisor)(bucket.local, reinterpret_cast<float*>(values.data()));
  } else {
    if (auto_ && !totals_known) auto_->ready(b);
    if (samples > 0 || is_sum) bucket.slice->sum(*bucket.gradients, divisor);
  }
  if (samples > 0) leftovers_.add(b, used, bucket.local, is_sum ? samples : 1, values);
  pipeline_->submit(
      b, {.step = updates_, .weight = samples, .used = used, .values = values, .own = own});
}

// Ranks that have come further wait for this one on the lanes: an error ends their waits as well.
Result<UpdateTotals> GroupUpdate::complete(const StepContribution& contribution,
                                           std::span<const double> sums) {
  auto totals = complete_step(contribution, sums);
  if (!totals && pipeline_) pipeline_->fail(totals.error());
  return totals;
}

Result<UpdateTotals> GroupUpdate::complete_step(const StepContribution& contribution,
                                                std::span<const double> sums) {
  TALLY_TRY(begin(contribution));
  if (auto_) auto_->ended();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    // Announced weights stay valid. Gradients of ranks without samples are not read.
    if (contribution.samples > 0) buckets_[b].gradients->publish_missing();
    close(b);
  }
  TALLY_TRY(UpdateTotals totals, agree(contribution, sums));
  totals.updated = totals.samples > 0;
  if (totals.updated) {
    TALLY_TRY(advance(true));
    TALLY_CHECK(next_ == buckets_.size());
    if (is_deferred()) {
      TALLY_TRY(totals.updated, update_deferred());
    }
  }
  TALLY_TRY(commit(totals.updated));
  if (totals.updated && auto_) TALLY_TRY(choose_codecs());
  return totals;
}

// All-reduces samples, `sums` and the use of each parameter. When it ends, all ranks have completed
// all their buckets.
Result<UpdateTotals> GroupUpdate::agree(const StepContribution& contribution,
                                        std::span<const double> sums) {
  const Stopwatch watch(times_.wait);
  statistics_.assign(1, contribution.samples);
  statistics_.insert(statistics_.end(), sums.begin(), sums.end());
  for (std::size_t p = 0; p < used_.size(); ++p) {
    const std::size_t b = memory_->layout().place_of[p].bucket;
    statistics_.push_back(contribution.samples > 0 && buckets_[b].gradients->has(p) ? 1 : 0);
  }
  TALLY_TRY(world_.allreduce(std::span(statistics_)));
  if (former_) former_->all_have_left();
  former_.reset();
  total_samples_ = statistics_[0];
  const std::size_t first = 1 + sums.size();
  for (std::size_t p = 0; p < used_.size(); ++p) used_[p] = statistics_[first + p] > 0 ? 1 : 0;
  return UpdateTotals{
      .samples = total_samples_,
      .sums = {statistics_.begin() + 1, statistics_.begin() + static_cast<std::ptrdiff_t>(first)}};
}

Result<void> GroupUpdate::await_average(std::size_t b) {
  {
    const Stopwatch watch(times_.wait);
    TALLY_TRY(pipeline_->wait(b));
  }
  if (!pipeline_->takes_sums(b)) return {};
  const Stopwatch watch(times_.update);
  buckets_[b].slice->scale(1 / total_samples_);
  return {};
}

Result<std::vector<Squares>> GroupUpdate::all_cells() {
  std::vector<Squares> cells(cells_);
  if (cells.empty()) return cells;
  // With averages all hosts have the same cells: only those of host 0 count, unless this rank has
  // all.
  const bool is_average = across_ == Across::kAverages;
  const bool has_all = across_ != Across::kParts && tiers_.locals() == 1;
  for (const Bucket& bucket : buckets_) {
    if (is_average && !has_all && tiers_.host != 0) continue;
    const Stopwatch watch(times_.update);
    bucket.slice->squares(std::span(cells).subspan(bucket.first_cell));
  }
  if (has_all) return cells;
  // Each cell belongs to one rank: adding the zeros of the others changes no bit.
  const Stopwatch watch(times_.wait);
  static_assert(sizeof(Squares) == 2 * sizeof(double));
  TALLY_TRY(world_.allreduce(std::span(&cells.data()->values, 2 * cells.size())));
  return cells;
}

// The sum of squares of the whole gradient.
Result<double> GroupUpdate::gradient_squares() {
  TALLY_TRY(const auto cells, all_cells());
  double squares = 0;
  for (const Squares& cell : cells) squares += cell.gradient;
  return squares;
}

// Returns whether the update goes on: a gradient that is not finite may be discarded. An infinite
// element would not be seen any more once it is clamped.
Result<bool> GroupUpdate::clip() {
  std::optional<double> squares;
  if (options_.discards_nonfinite) {
    TALLY_TRY(squares, gradient_squares());
    if (!std::isfinite(*squares)) return false;
  }
  if (options_.clip_value) {
    for (Bucket& bucket : buckets_) bucket.slice->clamp(*options_.clip_value);
    squares.reset();
  }
  if (!options_.clip_norm) return true;
  if (!squares) {
    TALLY_TRY(squares, gradient_squares());
  }
  const double factor = clip_factor(std::sqrt(*squares), *options_.clip_norm);
  if (factor != 1)
    for (Bucket& bucket : buckets_) bucket.slice->scale(factor);
  return true;
}

Result<std::vector<Squares>> GroupUpdate::squares_of_parameters() {
  TALLY_TRY(const auto cells, all_cells());
  std::vector<Squares> sums(options_.parameters.size());
  std::size_t cell = 0;
  for (const BucketLayout& bucket : memory_->layout().buckets) {
    for (const BucketLayout::Entry& entry : bucket.entries) {
      const std::size_t end = cell + Slice::cells_in(entry.range);
      for (; cell < end; ++cell) {
        sums[entry.parameter].values += cells[cell].values;
        sums[entry.parameter].gradient += cells[cell].gradient;
      }
    }
  }
  return sums;
}

// Waits for the bucket, and updates it while later buckets are in flight.
Result<void> GroupUpdate::update_bucket(std::size_t b) {
  TALLY_TRY(await_average(b));
  const Stopwatch watch(times_.update);
  if (options_.clip_value) buckets_[b].slice->clamp(*options_.clip_value);
  buckets_[b].slice->update(facts(), {});
  note_done(b);
  publish(b);
  return {};
}

// Returns whether there was an update.
Result<bool> GroupUpdate::update_deferred() {
  if (!layerwise_ && !needs_norm() && !agrees_first_) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) TALLY_TRY(update_bucket(b));
    return true;
  }
  for (std::size_t b = 0; pipeline_ && b < buckets_.size(); ++b) TALLY_TRY(await_average(b));
  has_averages_ = true;
  averages_rates_ = rates_;
  if (agrees_first_) {
    const Stopwatch watch(times_.wait);
    TALLY_TRY(world_.barrier());
  }
  return apply();
}

// Updates all buckets when all gradients are there. A rank with a replica of its own needs no other
// rank for that, and cannot fail.
Result<bool> GroupUpdate::apply() {
  const UpdateFacts now = facts();
  TALLY_TRY(const bool goes_on, clip());
  if (!goes_on) return false;
  std::vector<Squares> of_parameters;
  if (layerwise_) {
    for (Bucket& bucket : buckets_) {
      const Stopwatch watch(times_.update);
      bucket.slice->prepare(now);
    }
    TALLY_TRY(of_parameters, squares_of_parameters());
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    {
      const Stopwatch watch(times_.update);
      buckets_[b].slice->update(now, of_parameters);
    }
    note_done(b);
    publish(b);
  }
  return true;
}

// Sends the new values of this host's part to the other hosts. The queue of a communicator has
// room for the operations of many buckets.
void GroupUpdate::publish(std::size_t b) {
  constexpr std::size_t kInFlight = 512;
  if (across_ != Across::kParts) return;
  if (b >= kInFlight && buckets_[b - kInFlight].published.operation)
    // commit() returns the error.
    (void)buckets_[b - kInFlight].published.operation->wait();
  Bucket& bucket = buckets_[b];
  const DataType type = memory_->layout().buckets[b].type;
  const std::size_t bytes = bucket.local.count() * size_of(type);
  bucket.published = publishing_->gather_parts(
      bucket.slice->outgoing(), {.type = type, .counts = bucket.counts},
      {memory_->values(b, memory_->next()) + bucket.local.begin * size_of(type), bytes});
}

// Returns when the new values have arrived on all ranks, and no rank reads gradients any more.
// Ranks that have agreed have no neighbours that read or write their memory.
Result<void> GroupUpdate::commit(bool updated) {
  for (Bucket& bucket : buckets_) {
    const Stopwatch watch(times_.wait);
    TALLY_TRY(bucket.published.finish());
  }
  if (!agrees_first_) {
    const Stopwatch watch(times_.wait);
    TALLY_TRY(world_.barrier());
  }
  if (updated) {
    memory_->flip();
    for (std::size_t p = 0; p < steps_.size(); ++p) steps_[p] += used_[p];
    ++updates_;
  }
  end_step();
  return {};
}

void GroupUpdate::end_step() {
  for (Bucket& bucket : buckets_) bucket.gradients->clear();
  next_ = 0;
  ++step_;
  begun_ = false;
  has_averages_ = false;
}

Result<void> GroupUpdate::discard_step() {
  std::array<std::int32_t, 2> facts = {begun_ ? 1 : 0, pipeline_ && next_ > 0 ? 1 : 0};
  TALLY_TRY(world_.allreduce(std::span<std::int32_t>(facts), ReduceOp::kMax));
  const auto [is_begun, is_sent] = facts;
  if (is_sent != 0)
    return make_error(ErrorCode::kInvalid,
                      "a step that has failed has sent gradients: start the job again");
  if (is_begun != 0) end_step();
  return {};
}

}  // namespace tally::exchange
