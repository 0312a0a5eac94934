#include "train/sharded_update.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/stopwatch.h"
#include "kernel/weighted_sum.h"
#include "optimizer/update_rule.h"
#include "train/check_same.h"

namespace tally::train {
namespace {

// In which lanes are summed: halves would lose what float32 keeps.
DataType sum_type(DataType type) {
  return type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
}

// Clipping leaves a gradient of this norm as it is and shortens longer ones to it; a norm that is no number spoils all, as
// in libtorch.
double clip_factor(double norm, double limit) {
  constexpr double kTiny = 1e-6;
  const double factor = limit / (norm + kTiny);
  return factor > 1 ? 1 : factor;
}

// Operations under way on a lane at once.
constexpr std::size_t kInFlight = 512;

std::vector<std::string> lines_of(const std::vector<ParameterInfo>& parameters) {
  std::vector<std::string> lines;
  for (const ParameterInfo& parameter : parameters) lines.push_back(to_string(parameter));
  return lines;
}

std::vector<std::string> settings_of(const ShardedUpdate::Options& options) {
  const auto text = [](const std::optional<double>& limit) {
    return limit ? fmt::format("{}", *limit) : std::string("none");
  };
  std::vector<std::string> lines = {fmt::format("bucket_bytes {}", options.bucket_bytes),
                                    "clip_value " + text(options.clip_value),
                                    "clip_norm " + text(options.clip_norm)};
  for (const OptimizerSpec& spec : options.optimizers)
    lines.push_back("optimizer " + tally::to_string(spec));
  lines.insert(lines.end(), options.settings.begin(), options.settings.end());
  return lines;
}

}  // namespace

ShardedUpdate::ShardedUpdate(Communicator& world, Options options, Tiers tiers)
    : world_(world),
      options_(std::move(options)),
      tiers_(std::move(tiers)),
      layerwise_(
          std::any_of(options_.optimizers.begin(), options_.optimizers.end(),
                      [](const OptimizerSpec& spec) { return optimizer::is_layerwise(spec); })),
      steps_(options_.parameters.size()),
      is_ready_(options_.parameters.size()),
      used_(options_.parameters.size()),
      all_used_(options_.parameters.size(), 1),
      sources_(static_cast<std::size_t>(tiers_.locals())),
      weights_(static_cast<std::size_t>(tiers_.locals())) {
  for (const OptimizerSpec& spec : options_.optimizers) rates_.push_back(spec.rate);
}

ShardedUpdate::~ShardedUpdate() {
  tiers_.sums.reset();
  tiers_.values.reset();
}

Result<std::unique_ptr<ShardedUpdate>> ShardedUpdate::make(Communicator& world,
                                                           const Options& options, Deadline by) {
  TALLY_TRY(check_same(world, {"models", "parameter", lines_of(options.parameters)}, by));
  TALLY_TRY(check_same(world, {"trainers", "setting", settings_of(options)}, by));
  TALLY_TRY(Tiers tiers, find_tiers(world, by));
  std::unique_ptr<ShardedUpdate> update(new ShardedUpdate(world, options, std::move(tiers)));
  std::vector<std::size_t> order(options.parameters.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  TALLY_TRY(update->use(update->layout_of(order), by));
  return update;
}

Layout ShardedUpdate::layout_of(std::span<const std::size_t> order) const {
  return make_layout(options_.parameters, order,
                     options_.bucket_bytes != 0 ? options_.bucket_bytes : kDefaultBucketBytes);
}

Result<void> ShardedUpdate::use(Layout layout, Deadline by) {
  TALLY_TRY(memory_, ModelMemory::make(world_, tiers_, std::move(layout), by));
  plan_work();
  return {};
}

void ShardedUpdate::plan_work() {
  works_.clear();
  cells_ = 0;
  for (std::size_t b = 0; b < buckets(); ++b) {
    const BucketLayout& bucket = memory_->layout().buckets[b];
    Work work;
    work.local =
        part_of({0, bucket.count}, {.parts = tiers_.locals(), .index = tiers_.local, .first = b});
    for (int host = 0; host < tiers_.hosts; ++host) {
      const Range part = part_of(work.local, {.parts = tiers_.hosts, .index = host});
      work.counts.push_back(part.count());
      if (host == tiers_.host) work.own = part;
    }
    work.pending = bucket.entries.size();
    work.first_cell = cells_;
    cells_ += Slice::cells_of(bucket);
    works_.push_back(std::move(work));
  }
}

// The bytes of a parameter where its bucket's begin at `bucket`.
std::span<std::byte> ShardedUpdate::bytes_of(std::size_t parameter, std::byte* bucket) const {
  const ParameterInfo& info = options_.parameters[parameter];
  const std::size_t element = size_of(info.type);
  return {bucket + memory_->layout().place_of[parameter].begin * element, info.count() * element};
}

std::span<std::byte> ShardedUpdate::values(std::size_t parameter) const {
  return bytes_of(parameter, memory_->values(memory_->layout().place_of[parameter].bucket));
}

std::span<std::byte> ShardedUpdate::gradient(std::size_t parameter) const {
  return bytes_of(parameter,
                  memory_->gradients(memory_->layout().place_of[parameter].bucket, tiers_.local));
}

Result<void> ShardedUpdate::spread_values(Deadline by) {
  // The first lane has the first rank of every host, and rank 0 is the first of the first.
  if (tiers_.hosts > 1 && tiers_.local == 0) {
    for (std::size_t b = 0; b < buckets(); ++b) {
      TALLY_TRY(tiers_.values->run({.operation = Operation::kBroadcast,
                                    .input = memory_->values(b),
                                    .output = memory_->values(b),
                                    .count = memory_->layout().buckets[b].bytes(),
                                    .type = DataType::kUInt8,
                                    .root = 0,
                                    .by = by}));
    }
  }
  return adopt_values(by);
}

Result<void> ShardedUpdate::adopt_values(Deadline by) {
  TALLY_TRY(world_.barrier({.by = by}));
  for (Work& work : works_)
    if (work.slice) work.slice->adopt_values();
  return {};
}

Result<bool> ShardedUpdate::reorder(std::vector<std::size_t>& order, Deadline by) {
  TALLY_CHECK(step_ == 1 && !begun_);
  std::vector<std::int64_t> first(order.begin(), order.end());
  TALLY_TRY(world_.broadcast(std::span(first), 0, {.by = by}));
  order.assign(first.begin(), first.end());
  Layout layout = layout_of(order);
  if (layout.buckets == memory_->layout().buckets) return false;
  const std::unique_ptr<ModelMemory> old = std::move(memory_);
  TALLY_TRY(use(std::move(layout), by));
  for (std::size_t p = 0; p < options_.parameters.size(); ++p) {
    const Layout::Place& place = old->layout().place_of[p];
    const std::size_t offset = place.begin * size_of(options_.parameters[p].type);
    const std::span<std::byte> to = gradient(p);
    std::memcpy(to.data(), old->gradients(place.bucket, tiers_.local) + offset, to.size());
    if (writes_values())
      std::memcpy(values(p).data(), old->values(place.bucket) + offset, to.size());
  }
  TALLY_TRY(world_.barrier({.by = by}));
  old->all_have_left();
  return true;
}

void ShardedUpdate::make_state() {
  for (std::size_t b = 0; b < buckets(); ++b) {
    if (works_[b].slice) continue;
    works_[b].slice = Slice::make({.bucket = memory_->layout().buckets[b],
                                   .range = works_[b].own,
                                   .parameters = options_.parameters,
                                   .optimizers = options_.optimizers,
                                   .values = memory_->values(b),
                                   .apart = tiers_.hosts > 1});
  }
}

std::vector<SliceState> ShardedUpdate::states() {
  make_state();
  std::vector<SliceState> all;
  for (Work& work : works_) {
    auto states = work.slice->states();
    std::move(states.begin(), states.end(), std::back_inserter(all));
  }
  return all;
}

bool ShardedUpdate::is_deferred() const {
  return layerwise_ || options_.clip_norm.has_value() || tiers_.hosts > 1;
}

void ShardedUpdate::begin(const StepContribution& contribution) {
  if (begun_) return;
  begun_ = true;
  make_state();
  memory_->flags(tiers_.local).weigh(contribution.weight, contribution.samples);
}

Result<void> ShardedUpdate::ready(std::size_t parameter) {
  if (is_ready_[parameter] != 0) return {};
  is_ready_[parameter] = 1;
  const std::size_t bucket = memory_->layout().place_of[parameter].bucket;
  if (--works_[bucket].pending > 0 || !begun_) return {};
  memory_->flags(tiers_.local).complete(bucket, step_);
  return advance(false);
}

bool ShardedUpdate::complete_on_host(std::size_t bucket) const {
  for (int neighbour = 0; neighbour < tiers_.locals(); ++neighbour)
    if (!memory_->flags(neighbour).is_complete(bucket, step_)) return false;
  return true;
}

// Before totals are known only buckets are worked on that are complete here by ready(): all their parameters are used.
Result<void> ShardedUpdate::advance(bool totals_known) {
  const Stopwatch watch(times_.update);
  for (; next_ < works_.size() && (totals_known || works_[next_].pending == 0); ++next_) {
    if (!complete_on_host(next_)) break;
    double samples = 0;
    for (int n = 0; n < tiers_.locals(); ++n) samples += memory_->flags(n).samples();
    if (!totals_known && samples == 0) break;
    // Across hosts the divisor comes with the totals.
    const double divisor = tiers_.hosts > 1 ? 1 : samples;
    for (int n = 0; n < tiers_.locals(); ++n) {
      const bool counts = memory_->flags(n).samples() > 0;
      weights_[static_cast<std::size_t>(n)] = counts ? memory_->flags(n).weight() / divisor : 0;
    }
    TALLY_TRY(work_on(next_, totals_known));
  }
  return {};
}

Result<void> ShardedUpdate::work_on(std::size_t b, bool totals_known) {
  Work& work = works_[b];
  const std::size_t offset = work.local.begin * size_of(memory_->layout().buckets[b].type);
  for (int n = 0; n < tiers_.locals(); ++n)
    sources_[static_cast<std::size_t>(n)] = memory_->gradients(b, n) + offset;
  if (tiers_.hosts > 1) return sum_over_lane(b);
  const Sources sources{.gradients = sources_, .weights = weights_};
  if (is_deferred()) {
    work.slice->sum(sources);
  } else {
    work.slice->sum_and_update(
        sources, options_.clip_value.value_or(0),
        {.rates = rates_, .steps = steps_, .used = totals_known ? used_ : all_used_});
  }
  return {};
}

Result<void> ShardedUpdate::sum_over_lane(std::size_t b) {
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
  work.summed = tiers_.sums->start({.operation = Operation::kReduceScatter,
                                    .input = work.lane_sum.data(),
                                    .output = work.slice->gradient().data(),
                                    .count = work.own.count(),
                                    .type = sum_type(type),
                                    .counts = work.counts});
  return {};
}

// What this rank has no gradient for counts as zero.
void ShardedUpdate::zero_unused() {
  for (std::size_t p = 0; p < is_ready_.size(); ++p) {
    if (is_ready_[p] != 0) continue;
    const std::span<std::byte> bytes = gradient(p);
    std::memset(bytes.data(), 0, bytes.size());
  }
}

Result<StepTotals> ShardedUpdate::complete(const StepContribution& contribution,
                                           std::span<const double> sums) {
  begin(contribution);
  // Weights that were announced stand; those who have no samples are not read.
  if (contribution.samples > 0) zero_unused();
  for (std::size_t b = 0; b < works_.size(); ++b) memory_->flags(tiers_.local).complete(b, step_);
  TALLY_TRY(StepTotals totals, agree(contribution, sums));
  if (totals.samples > 0) {
    TALLY_TRY(advance(true));
    TALLY_CHECK(next_ == works_.size());
    if (is_deferred()) TALLY_TRY(update_deferred());
    for (std::size_t p = 0; p < steps_.size(); ++p) steps_[p] += used_[p];
  }
  TALLY_TRY(finish_step());
  return totals;
}

// One sum over all ranks: samples, what was given along, and who uses which parameter. When it is there, all ranks
// have completed all their buckets.
Result<StepTotals> ShardedUpdate::agree(const StepContribution& contribution,
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
  return StepTotals{
      .samples = total_samples_,
      .sums = {statistics_.begin() + 1, statistics_.begin() + static_cast<std::ptrdiff_t>(first)}};
}

Result<void> ShardedUpdate::timed_wait(Handle& handle) {
  const Stopwatch watch(times_.wait);
  return handle.wait();
}

Result<void> ShardedUpdate::await_sums() {
  for (Work& work : works_) {
    if (!work.summed) continue;
    TALLY_TRY(timed_wait(*work.summed));
    work.summed.reset();
    const Stopwatch watch(times_.update);
    work.slice->scale(1 / total_samples_);
  }
  return {};
}

Result<std::vector<Squares>> ShardedUpdate::all_cells() {
  std::vector<Squares> cells(cells_);
  if (cells.empty()) return cells;
  for (const Work& work : works_) {
    const Stopwatch watch(times_.update);
    work.slice->squares(std::span(cells).subspan(work.first_cell));
  }
  // Each cell is one rank's: adding zeros of the others changes no bit.
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

Result<void> ShardedUpdate::update_deferred() {
  TALLY_TRY(await_sums());
  TALLY_TRY(clip());
  const UpdateFacts facts{.rates = rates_, .steps = steps_, .used = used_};
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
    if (tiers_.hosts > 1) TALLY_TRY(send_values(b));
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

// Everybody goes on when all new values are there and nobody reads gradients any more.
Result<void> ShardedUpdate::finish_step() {
  for (Work& work : works_) {
    if (!work.gathered) continue;
    TALLY_TRY(timed_wait(*work.gathered));
    work.gathered.reset();
  }
  {
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

}  // namespace tally::train
