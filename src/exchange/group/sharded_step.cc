#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "base/stopwatch.h"
#include "exchange/auto_codec/auto_codec.h"
#include "exchange/group/sharded_update.h"
#include "kernel/array/weighted_sum.h"

// One step of a ShardedUpdate; sharded_update.cc sets up the memory and the slices.
//
//   begin()      announces this rank's weight and samples in its StepFlags.
//   ready()      marks a parameter's gradient as complete; advance() then runs work_on() for the
//                buckets that are complete on all neighbours, in bucket order:
//                  one host:           sum the slice, and update it unless is_deferred()
//                  several hosts:      sum the local range, start a reduce-scatter over the lane
//                  encodes_:           sum the local range, submit it to exchange_
//   complete()   agree() sums samples and use of parameters over all ranks. advance() handles the
//                remaining buckets. update_deferred() waits for sums, clips, updates the slices and
//                sends values. finish_step() ends the step on all ranks.
namespace tally::exchange {
namespace {

// The type of sums over lanes: half types would lose precision that float32 keeps.
DataType sum_type(DataType type) {
  return type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
}

// The factor that reduces a norm above `limit` to `limit`; 1 for smaller norms. A NaN norm makes
// all gradients NaN, as in libtorch.
double clip_factor(double norm, double limit) {
  constexpr double kTiny = 1e-6;
  const double factor = limit / (norm + kTiny);
  return factor > 1 ? 1 : factor;
}

// Concurrent operations on a lane.
constexpr std::size_t kInFlight = 512;

}  // namespace

bool ShardedUpdate::is_deferred() const {
  return layerwise_ || options_.clip_norm.has_value() || tiers_.hosts > 1 || encodes_;
}

void ShardedUpdate::begin(const StepContribution& contribution) {
  if (begun_) return;
  begun_ = true;
  settle_keeping_failure();
  make_state();
  for (Work& work : works_) work.ready_at = {};
  memory_->flags(tiers_.local).weigh(contribution.weight, contribution.samples);
}

Result<void> ShardedUpdate::ready(std::size_t parameter) {
  if (failure_) return *failure_;
  if (is_ready_[parameter] != 0) return {};
  is_ready_[parameter] = 1;
  const std::size_t bucket = memory_->layout().place_of[parameter].bucket;
  if (--works_[bucket].pending > 0 || !begun_) return {};
  note_ready(bucket);
  return advance(false);
}

void ShardedUpdate::note_ready(std::size_t bucket) {
  if (works_[bucket].ready_at == TimePoint{}) works_[bucket].ready_at = steady_now();
  memory_->flags(tiers_.local).complete(bucket, step_);
}

void ShardedUpdate::note_done(std::size_t bucket) {
  if (options_.on_bucket) options_.on_bucket(bucket, works_[bucket].ready_at, steady_now());
}

bool ShardedUpdate::complete_on_host(std::size_t bucket) const {
  for (int neighbour = 0; neighbour < tiers_.locals(); ++neighbour)
    if (!memory_->flags(neighbour).is_complete(bucket, step_)) return false;
  return true;
}

// Before the totals are known, only buckets that are complete by ready() are processed: all their
// parameters are used.
Result<void> ShardedUpdate::advance(bool totals_known) {
  const Stopwatch watch(times_.update);
  for (; next_ < works_.size() && (totals_known || works_[next_].pending == 0); ++next_) {
    if (!complete_on_host(next_)) break;
    double samples = 0;
    for (int n = 0; n < tiers_.locals(); ++n) samples += memory_->flags(n).samples();
    if (!totals_known && samples == 0) break;
    // A gradient of a rank without samples does not count as used. All hosts must agree on that, so
    // leave such buckets to complete().
    if (!totals_known && encodes_ && memory_->flags(tiers_.local).samples() == 0) break;
    // Across hosts sums are divided when the totals are known; a codec encodes a mean.
    const bool is_sum = encodes_ ? exchange_->takes_sums(next_) : tiers_.hosts > 1;
    const double divisor = is_sum || samples == 0 ? 1 : samples;
    for (int n = 0; n < tiers_.locals(); ++n) {
      const bool counts = memory_->flags(n).samples() > 0;
      weights_[static_cast<std::size_t>(n)] = counts ? memory_->flags(n).weight() / divisor : 0;
    }
    TALLY_TRY(work_on(next_, samples, totals_known));
  }
  return {};
}

Result<void> ShardedUpdate::work_on(std::size_t b, double samples, bool totals_known) {
  Work& work = works_[b];
  const std::size_t offset = work.local.begin * size_of(memory_->layout().buckets[b].type);
  for (int n = 0; n < tiers_.locals(); ++n)
    sources_[static_cast<std::size_t>(n)] = memory_->gradients(b, n) + offset;
  const Sources sources{.gradients = sources_, .weights = weights_};
  if (encodes_) {
    if (auto_ && !totals_known) auto_->ready(b);
    if (samples > 0 || exchange_->takes_sums(b)) work.slice->sum(sources);
    if (samples > 0)
      add_leftovers(b, exchange_->takes_sums(b) ? samples : 1, totals_known,
                    work.slice->gradient());
    exchange_->submit(b, {.step = updates_,
                          .weight = samples,
                          .used = totals_known ? used_ : all_used_,
                          .values = work.slice->gradient()});
    return {};
  }
  if (tiers_.hosts > 1) return sum_over_lane(b, samples, totals_known);
  if (is_deferred()) {
    work.slice->sum(sources);
  } else {
    work.slice->sum_and_update(sources, options_.clip_value.value_or(0),
                               {.rates = rates_,
                                .steps = steps_,
                                .used = totals_known ? used_ : all_used_,
                                .updates = updates_});
    note_done(b);
  }
  return {};
}

Result<void> ShardedUpdate::sum_over_lane(std::size_t b, double samples, bool totals_known) {
  if (b >= kInFlight && works_[b - kInFlight].summed)
    TALLY_TRY(timed_wait(*works_[b - kInFlight].summed));
  Work& work = works_[b];
  const DataType type = memory_->layout().buckets[b].type;
  work.lane_sum.resize(work.local.count() * size_of(sum_type(type)));
  if (type == DataType::kFloat64) {
    kernel::weighted_sum(type, sources_, weights_, reinterpret_cast<double*>(work.lane_sum.data()),
                         work.local.count());
  } else {
    const std::vector<float> weights(weights_.begin(), weights_.end());
    kernel::weighted_sum(type, sources_, weights, reinterpret_cast<float*>(work.lane_sum.data()),
                         work.local.count());
  }
  if (samples > 0) add_leftovers(b, samples, totals_known, work.lane_sum);
  work.summed = tiers_.sums->start({.operation = Operation::kReduceScatter,
                                    .input = work.lane_sum.data(),
                                    .output = work.slice->gradient().data(),
                                    .count = work.own.count(),
                                    .type = sum_type(type),
                                    .counts = work.counts});
  return {};
}

// A parameter without a gradient on this rank counts as zero.
void ShardedUpdate::zero_unused() {
  for (std::size_t p = 0; p < is_ready_.size(); ++p) {
    if (is_ready_[p] != 0) continue;
    const std::span<std::byte> bytes = gradient(p);
    std::memset(bytes.data(), 0, bytes.size());
  }
}

Result<UpdateTotals> ShardedUpdate::complete(const StepContribution& contribution,
                                           std::span<const double> sums) {
  begin(contribution);
  if (failure_) return *failure_;
  if (auto_) auto_->ended();
  // Announced weights stay valid. Gradients of ranks without samples are not read.
  if (contribution.samples > 0) zero_unused();
  for (std::size_t b = 0; b < works_.size(); ++b) note_ready(b);
  TALLY_TRY(UpdateTotals totals, agree(contribution, sums));
  if (totals.samples > 0) {
    TALLY_TRY(advance(true));
    TALLY_CHECK(next_ == works_.size());
    if (can_be_late_) {
      begin_late();
    } else if (is_deferred()) {
      TALLY_TRY(update_deferred());
    }
    for (std::size_t p = 0; p < steps_.size(); ++p) steps_[p] += used_[p];
    ++updates_;
    if (auto_) TALLY_TRY(choose_codecs());
  }
  TALLY_TRY(finish_step());
  return totals;
}

// All-reduces samples, `sums` and the use of each parameter. When it ends, all ranks have completed
// all their buckets.
Result<UpdateTotals> ShardedUpdate::agree(const StepContribution& contribution,
                                        std::span<const double> sums) {
  const Stopwatch watch(times_.wait);
  statistics_.assign(1, contribution.samples);
  statistics_.insert(statistics_.end(), sums.begin(), sums.end());
  for (const std::uint8_t ready : is_ready_)
    statistics_.push_back(contribution.samples > 0 ? ready : 0);
  TALLY_TRY(world_.allreduce(std::span(statistics_)));
  total_samples_ = statistics_[0];
  const std::size_t first = 1 + sums.size();
  for (std::size_t p = 0; p < used_.size(); ++p) used_[p] = statistics_[first + p] > 0 ? 1 : 0;
  return UpdateTotals{
      .samples = total_samples_,
      .sums = {statistics_.begin() + 1, statistics_.begin() + static_cast<std::ptrdiff_t>(first)}};
}

Result<void> ShardedUpdate::timed_wait(Handle& handle) {
  const Stopwatch watch(times_.wait);
  return handle.wait();
}

Result<void> ShardedUpdate::await_sums() {
  for (std::size_t b = 0; exchange_ && b < works_.size(); ++b) TALLY_TRY(await_average(b));
  for (Work& work : works_) {
    if (!work.summed) continue;
    TALLY_TRY(timed_wait(*work.summed));
    work.summed.reset();
    const Stopwatch watch(times_.update);
    work.slice->scale(1 / total_samples_);
  }
  return {};
}

Result<void> ShardedUpdate::await_average(std::size_t bucket) {
  {
    const Stopwatch watch(times_.wait);
    TALLY_TRY(exchange_->wait(bucket));
  }
  if (!exchange_->takes_sums(bucket)) return {};
  const Stopwatch watch(times_.update);
  works_[bucket].slice->scale(1 / total_samples_);
  return {};
}

Result<std::vector<Squares>> ShardedUpdate::all_cells() {
  std::vector<Squares> cells(cells_);
  if (cells.empty()) return cells;
  // With a codec all hosts have the same cells: only those of host 0 count, unless this rank has
  // all.
  const bool has_all = encodes_ && tiers_.locals() == 1;
  for (const Work& work : works_) {
    if (encodes_ && !has_all && tiers_.host != 0) continue;
    const Stopwatch watch(times_.update);
    work.slice->squares(std::span(cells).subspan(work.first_cell));
  }
  if (has_all) return cells;
  // Each cell belongs to one rank: adding the zeros of the others changes no bit.
  const Stopwatch watch(times_.wait);
  static_assert(sizeof(Squares) == 2 * sizeof(double));
  TALLY_TRY(world_.allreduce(std::span(&cells.data()->values, 2 * cells.size())));
  return cells;
}

Result<void> ShardedUpdate::clip() {
  if (options_.clip_value)
    for (Work& work : works_) work.slice->clamp(*options_.clip_value);
  if (!options_.clip_norm) return {};
  TALLY_TRY(const auto cells, all_cells());
  double squares = 0;
  for (const Squares& cell : cells) squares += cell.gradient;
  const double factor = clip_factor(std::sqrt(squares), *options_.clip_norm);
  if (factor != 1)
    for (Work& work : works_) work.slice->scale(factor);
  return {};
}

Result<std::vector<Squares>> ShardedUpdate::squares_of_parameters() {
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

// Updates each bucket as soon as its average has arrived, while later buckets are in flight.
Result<void> ShardedUpdate::update_as_they_come() {
  const UpdateFacts facts{.rates = rates_, .steps = steps_, .used = used_, .updates = updates_};
  for (std::size_t b = 0; b < works_.size(); ++b) TALLY_TRY(update_bucket(b, facts));
  return {};
}

Result<void> ShardedUpdate::update_bucket(std::size_t b, const UpdateFacts& facts) {
  TALLY_TRY(await_average(b));
  const Stopwatch watch(times_.update);
  if (options_.clip_value) works_[b].slice->clamp(*options_.clip_value);
  works_[b].slice->update(facts, {});
  note_done(b);
  return {};
}

Result<void> ShardedUpdate::update_deferred() {
  if (encodes_ && !layerwise_ && !options_.clip_norm) return update_as_they_come();
  TALLY_TRY(await_sums());
  TALLY_TRY(clip());
  const UpdateFacts facts{.rates = rates_, .steps = steps_, .used = used_, .updates = updates_};
  std::vector<Squares> of_parameters;
  if (layerwise_) {
    for (Work& work : works_) {
      const Stopwatch watch(times_.update);
      work.slice->prepare(facts);
    }
    TALLY_TRY(of_parameters, squares_of_parameters());
  }
  for (std::size_t b = 0; b < works_.size(); ++b) {
    {
      const Stopwatch watch(times_.update);
      works_[b].slice->update(facts, of_parameters);
    }
    note_done(b);
    if (tiers_.hosts > 1 && !encodes_) TALLY_TRY(send_values(b));
  }
  return {};
}

Result<void> ShardedUpdate::send_values(std::size_t b) {
  if (b >= kInFlight) TALLY_TRY(timed_wait(*works_[b - kInFlight].gathered));
  Work& work = works_[b];
  const DataType type = memory_->layout().buckets[b].type;
  work.gathered =
      tiers_.values->start({.operation = Operation::kAllgather,
                            .input = work.slice->outgoing().data(),
                            .output = memory_->values(b) + work.local.begin * size_of(type),
                            .count = work.own.count(),
                            .type = type,
                            .counts = work.counts});
  return {};
}

// Returns when all new values have arrived and no rank reads gradients any more. Ranks with late
// updates have no neighbours that read or write their memory.
Result<void> ShardedUpdate::finish_step() {
  for (Work& work : works_) {
    if (!work.gathered) continue;
    TALLY_TRY(timed_wait(*work.gathered));
    work.gathered.reset();
  }
  if (!can_be_late_) {
    const Stopwatch watch(times_.wait);
    TALLY_TRY(world_.barrier());
  }
  for (std::size_t b = 0; b < works_.size(); ++b)
    works_[b].pending = memory_->layout().buckets[b].entries.size();
  std::fill(is_ready_.begin(), is_ready_.end(), std::uint8_t{0});
  next_ = 0;
  ++step_;
  begun_ = false;
  return {};
}

}  // namespace tally::exchange
